package postgres

import (
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestConformance(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		warehousetest.Run(t, warehousetest.Backend{
			Name: "postgres",
			Open: func(t *testing.T) *handlers.Env {
				return &handlers.Env{Dialect: Dialect, Warehouse: open(t, Options{URL: address}), CountTarget: true, TableFormat: warehouses.FormatNative}
			},
			HashTypes: map[string]string{"char8": "CHAR(8)", "ts_s": "TIMESTAMP(0)", "ts_ms": "TIMESTAMP(3)"},
			Failing:   "SELECT CASE WHEN i < 3 THEN i ELSE CAST('a' || i AS integer) END AS id FROM generate_series(0, 999) AS r (i)",
			OtherTypes: `ARRAY[1, NULL] AS ar, CAST('{"a": 1}' AS json) AS js, CAST('{"a": 1}' AS jsonb) AS jb, CAST('ab' AS bytea) AS by, ` +
				`INTERVAL '1 month 2 days' AS iv, CAST('<a/>' AS xml) AS xm, CAST('(1,2)' AS point) AS po, CAST('10.0.0.1/8' AS inet) AS ip, ` +
				`CAST('[1,5)' AS int4range) AS ra, CAST(1.5 AS double precision) AS db, CAST(1.5 AS numeric) AS nu, CAST('10:00' AS time(3)) AS tm, ` +
				`CAST('101' AS bit varying(3)) AS bt, CAST('x' AS "char") AS ch, CAST('x' AS bpchar) AS bp, CAST(12 AS money) AS mo, ` +
				`CAST(1 AS information_schema.cardinal_number) AS dn, CAST('YES' AS information_schema.yes_or_no) AS dt, ` +
				`ARRAY[CAST('a' AS varchar(7))] AS va, CAST('a' AS varchar(7)) COLLATE "C" AS co`,
		})
	})
}
