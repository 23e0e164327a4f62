package duckdbiceberg

import (
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestConformance(t *testing.T) {
	options := server(t)
	warehousetest.Run(t, warehousetest.Backend{
		Name: "duckdb_iceberg",
		Open: func(t *testing.T) *handlers.Env {
			return &handlers.Env{Dialect: Dialect, Warehouse: open(t, options), CountTarget: true, TableFormat: warehouses.FormatIceberg}
		},
		HashTypes: map[string]string{"ts_s": "TIMESTAMP_S", "ts_ms": "TIMESTAMP_MS", "date_inf": "", "ts_inf": "", "tstz_inf": ""}, // Iceberg stores no infinity
		Sequences: 16,
		NoViews:   true, NoCascade: true, OneCase: true,
		Failing: "SELECT CASE WHEN i < 3 THEN i ELSE CAST(chr(97) || i AS INTEGER) END AS id FROM range(1000) AS r(i)",
		OtherTypes: "[1, NULL] AS l, {'a': 1, 'B c': [DATE '2026-01-01']} AS st, MAP {'k': 1} AS m, CAST('x' AS ENUM ('x', 'it''s')) AS e, CAST('ab' AS BLOB) AS bl, " +
			"CAST(1 AS HUGEINT) AS hg, CAST(1 AS SMALLINT) AS sm, CAST(1 AS UBIGINT) AS ub, TIME '01:02:03' AS tm, CAST(1.5 AS DOUBLE) AS db, CAST('{}' AS JSON) AS js",
	})
}
