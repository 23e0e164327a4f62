package snowflake

import (
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func backend(t *testing.T, format string) warehousetest.Backend {
	address := server(t)
	b := warehousetest.Backend{
		Name: "snowflake",
		Open: func(t *testing.T) *handlers.Env {
			return &handlers.Env{Dialect: Dialect, Warehouse: open(t, Options{DSN: address}), CountTarget: true, TableFormat: format}
		},
		Failing:    "SELECT CAST(CASE WHEN i < 3 THEN to_varchar(i) ELSE 'a' END AS INTEGER) AS id FROM (SELECT 1 AS i UNION ALL SELECT 2 UNION ALL SELECT 3) AS r",
		OtherTypes: `CAST(1.5 AS FLOAT) AS fl, to_variant(1) AS va, CAST('ab' AS BINARY) AS bi, CAST('10:00:00' AS TIME) AS tm, object_construct('a', 1) AS ob`,
		Lacks:      []string{"UUID", "TABLE", "uuid", "dec38_38", "date_inf", "ts_inf", "tstz_inf"},
	}
	if emulated(address) {
		b.Lacks = append(b.Lacks, "dec38_0") // its integers have 64 bits
		// It takes minutes for statements with many columns.
		b.Directed = []string{"evolution adds columns with their complete types", "a retried append replaces its own rows only", "a SELECT that fails keeps the old rows",
			"a SELECT may read its own target", "which row of a repeated key is kept", "a deleted row comes back whole", "NULL keys and NULL values", "values in the target's types",
			"witnesses of lost attempts", "types that cannot be hashed pass through"}
	}
	return b
}

// TestConformance runs on native tables. A real account would take the same environment variable.
func TestConformance(t *testing.T) {
	b := backend(t, warehouses.FormatNative)
	b.Sequences = 4
	warehousetest.Run(t, b)
}

// TestConformanceIceberg runs on tables without a generator behind ROW_ID. To the emulator they are native.
func TestConformanceIceberg(t *testing.T) {
	b := backend(t, warehouses.FormatIceberg)
	b.Sequences = 4
	if emulated(server(t)) {
		b.Lacks = append(b.Lacks, "TIMESTAMP", "TIMESTAMP WITH TIME ZONE") // all of its timestamps have nine digits
	}
	warehousetest.RunSequences(t, b)
}
