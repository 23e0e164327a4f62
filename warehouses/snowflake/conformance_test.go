package snowflake

import (
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

// TestConformance runs on native tables. A real account would take the same environment variable.
func TestConformance(t *testing.T) {
	address := server(t)
	lacks := []string{"UUID", "TABLE", "uuid", "dec38_38", "date_inf", "ts_inf", "tstz_inf"}
	if emulated(address) {
		lacks = append(lacks, "dec38_0") // its integers have 64 bits
	}
	warehousetest.Run(t, warehousetest.Backend{
		Name: "snowflake",
		Open: func(t *testing.T) *handlers.Env {
			return &handlers.Env{Dialect: Dialect, Warehouse: open(t, Options{DSN: address}), CountTarget: true, TableFormat: warehouses.FormatNative}
		},
		Failing:    "SELECT CAST(CASE WHEN i < 3 THEN to_varchar(i) ELSE 'a' END AS INTEGER) AS id FROM (SELECT 1 AS i UNION ALL SELECT 2 UNION ALL SELECT 3) AS r",
		OtherTypes: `CAST(1.5 AS FLOAT) AS fl, to_variant(1) AS va, CAST('ab' AS BINARY) AS bi, CAST('10:00:00' AS TIME) AS tm, object_construct('a', 1) AS ob`,
		Lacks:      lacks,
		Sequences:  24,
	})
}
