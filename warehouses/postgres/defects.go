package postgres

import (
	"time"

	"github.com/etl-craft/etl-craft/warehouses"
)

// defects are versions that lose data, and those that get no corrections any more: the dates are those of
// https://www.postgresql.org/support/versioning/.
var defects = append([]warehouses.Defect{
	// Release notes of 14.4: indexes built with CONCURRENTLY can miss rows, and then a merge does not find them.
	{From: "14", Below: "14.4", What: "indexes made with CREATE INDEX CONCURRENTLY or REINDEX CONCURRENTLY can miss rows",
		Hint: "upgrade to 14.4 or later, then REINDEX what was made with CONCURRENTLY"},
	{Below: "14", What: "etl-craft is tested with PostgreSQL 14 and later", Hint: "upgrade the server"},
}, unsupported()...)

func unsupported() []warehouses.Defect {
	var all []warehouses.Defect
	for _, v := range []struct{ version, next, end string }{
		{"14", "15", "2026-11-12"}, {"15", "16", "2027-11-11"}, {"16", "17", "2028-11-09"}, {"17", "18", "2029-11-08"}, {"18", "19", "2030-11-14"},
	} {
		end, err := time.Parse(time.DateOnly, v.end)
		if err != nil {
			panic(err)
		}
		all = append(all, warehouses.Defect{From: v.version, Below: v.next, Since: end.AddDate(0, 0, 1),
			What: "PostgreSQL " + v.version + " has had no corrections since " + v.end, Hint: "upgrade the server"})
	}
	return all
}
