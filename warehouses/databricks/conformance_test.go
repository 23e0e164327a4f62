package databricks

import (
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestConformance(t *testing.T) {
	w := shared(t)
	warehousetest.Run(t, warehousetest.Backend{
		SideBySide: true,
		// Spark takes about a second for each statement.
		Directed: []string{"evolution adds columns with their complete types", "a retried append replaces its own rows only"},
		Name:     "databricks",
		Open: func(t *testing.T) *handlers.Env {
			return &handlers.Env{Dialect: Dialect, Warehouse: w, CountTarget: true, TableFormat: warehouses.FormatNative}
		},
		Types: map[string]string{
			"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "DOUBLE PRECISION": "DOUBLE",
			"UUID": "STRING", "TIME": "BINARY", // which it has not
		},
		Text: func(k warehousetest.Kind, value string) string {
			if k == "uuid" {
				return strings.ToLower(value)
			}
			return value
		},
		HashTypes: map[string]string{"uuid": "", "char8": "", "date_inf": "", "ts_inf": "", "tstz_inf": ""},
		Sequences: 2,
		Stale:     "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
		Failing:   "SELECT CASE WHEN id < 3 THEN CAST(id AS INT) ELSE CAST(concat('a', id) AS INT) END AS id FROM range(1000)",
		OtherTypes: "array(1, NULL) AS ar, named_struct('a', 1, 'b', array(DATE '2026-01-01')) AS st, map('k', 1) AS m, X'4142' AS bl, CAST(1.5 AS DOUBLE) AS db, " +
			"CAST(1.5 AS FLOAT) AS fl, CAST(1 AS TINYINT) AS ti, CAST('x' AS CHAR(3)) AS ch, CAST(1 AS DECIMAL(38,0)) AS de",
	})
}
