package sql_test

import (
	"path/filepath"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestConformanceDuckDB(t *testing.T) {
	warehousetest.Run(t, warehousetest.Backend{
		Name: "duckdb",
		Open: func(t *testing.T) *handlers.Env {
			w, err := duckdb.Open(duckdb.Options{Path: filepath.Join(t.TempDir(), "warehouse.duckdb")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			})
			return &handlers.Env{Dialect: duckdb.Dialect, Warehouse: w, CountTarget: true, TableFormat: warehouses.FormatNative}
		},
		HashTypes: map[string]string{"ts_s": "TIMESTAMP_S", "ts_ms": "TIMESTAMP_MS", "ts_ns": "TIMESTAMP_NS"},
		Failing:   "SELECT CASE WHEN i < 3 THEN i ELSE CAST(chr(97) || i AS INTEGER) END AS id FROM range(1000) AS r(i)",
		OtherTypes: "[1, NULL] AS l, {'a': 1, 'B c': [DATE '2026-01-01']} AS st, MAP {'k': 1} AS m, CAST('x' AS ENUM ('x', 'it''s')) AS e, CAST('ab' AS BLOB) AS bl, " +
			"INTERVAL 1 DAY AS iv, CAST(1 AS HUGEINT) AS hg, CAST('101' AS BIT) AS bt, TIME '01:02:03' AS tm, CAST(1.5 AS DOUBLE) AS db, CAST(NULL AS VARCHAR[3]) AS ar, CAST('{}' AS JSON) AS js, CAST(1 AS UNION(num INTEGER, str VARCHAR)) AS un",
	})
}
