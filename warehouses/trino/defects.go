package trino

import "github.com/etl-craft/etl-craft/warehouses"

// defects are versions whose writes to Iceberg tables are known to go wrong, from https://trino.io/docs/current/release.html.
var defects = []warehouses.Defect{
	{Below: "476", What: "etl-craft is tested with Trino 476", Hint: "upgrade the server, or run the conformance suite against it"},
}
