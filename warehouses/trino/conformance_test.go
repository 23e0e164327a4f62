package trino

import (
	"regexp"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestConformance(t *testing.T) {
	o := server(t)
	warehousetest.Run(t, warehousetest.Backend{
		SideBySide: true,
		Directed: []string{"evolution adds columns with their complete types", "a retried append replaces its own rows only", "a SELECT that fails keeps the old rows",
			"a SELECT may read its own target", "reserved words as column names", "which row of a repeated key is kept", "a deleted row comes back whole", "NULL keys and NULL values",
			"values in the target's types", "witnesses of lost attempts", "types that cannot be hashed pass through"},
		Name: "trino",
		Open: func(t *testing.T) *handlers.Env {
			return &handlers.Env{Dialect: Dialect, Warehouse: open(t, o), CountTarget: true, TableFormat: warehouses.FormatIceberg}
		},
		Types: map[string]string{"TIMESTAMP": "TIMESTAMP(6)", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP(6) WITH TIME ZONE"},
		Text:  writtenAs,
		// Iceberg holds neither infinite dates nor lengths of text.
		HashTypes:  map[string]string{"ts": "TIMESTAMP(6)", "ts_s": "TIMESTAMP(0)", "ts_ms": "TIMESTAMP(3)", "date_inf": "", "ts_inf": "", "tstz_inf": ""},
		Sequences:  10,
		Failing:    "SELECT CASE WHEN i < 3 THEN i ELSE CAST('a' || CAST(i AS varchar) AS bigint) END AS id FROM UNNEST(sequence(0, 999)) AS r (i)",
		OtherTypes: "ARRAY[1, NULL] AS ar, MAP(ARRAY['k'], ARRAY[1]) AS mp, CAST(ROW(1, 'x') AS ROW(a integer, b varchar)) AS rw, X'6162' AS vb, TIME '01:02:03' AS tm, DOUBLE '1.5' AS db, REAL '1.5' AS rl",
	})
}

var offset = regexp.MustCompile(` ?([+-]\d\d)(:?\d\d)?$`)

// writtenAs writes times as Trino reads them: 2026-09-01 01:02:03.5 +02:00.
func writtenAs(k warehousetest.Kind, value string) string {
	if k != "timestamp" && k != "timestamptz" {
		return value
	}
	value = strings.Replace(strings.Replace(value, "T", " ", 1), "Z", " UTC", 1)
	if m := offset.FindStringSubmatch(value); m != nil && k == "timestamptz" {
		minutes := m[2]
		if minutes == "" {
			minutes = ":00"
		}
		value = strings.TrimSuffix(value, m[0]) + " " + m[1] + minutes
	}
	return value
}
