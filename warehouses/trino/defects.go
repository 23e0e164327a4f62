package trino

import "github.com/etl-craft/etl-craft/warehouses"

// defects are those of MERGE, by which most actions write; the numbers are issues of github.com/trinodb/trino.
var defects = []warehouses.Defect{
	{Below: "476", What: "etl-craft is tested with Trino 476", Hint: "upgrade the server, or run the conformance suite against it"},
	// 26968, and 26786 with task retries
	{From: "477", Below: "478", What: "MERGE can double rows of Iceberg tables; etl-craft then fails the task, after the rows were written", Hint: "use Trino 476, or 478 and later"},
	// 29604, 30639
	{From: "478", Below: "484", What: "MERGE can fail with MERGE_TARGET_ROW_MULTIPLE_MATCHES although no row matches twice; nothing is written then",
		Hint: "use Trino 476, or set join_distribution_type to BROADCAST where it happens"},
}
