// Package trino is the dialect of Trino with an Iceberg catalog.
package trino

import (
	"embed"
	"regexp"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/internal/sqlscan"
	"github.com/etl-craft/etl-craft/warehouses"
)

//go:embed sql/*.sql.tmpl
var statements embed.FS

// Dialect is Trino over Iceberg. Types are written as information_schema prints them.
var Dialect = &warehouses.Dialect{
	Name:           "trino",
	Product:        "Trino",
	Syntax:         sqlscan.Trino,
	Quote:          `"`,
	Folds:          warehouses.FoldLower,
	NamesDatabase:  true,
	Formats:        []string{warehouses.FormatIceberg},
	StorageParams:  []string{"EXTERNAL_LOCATION"},
	BigInt:         "bigint",
	HashKeyType:    "varchar",
	UserType:       "varchar",
	FlagType:       "varchar",
	InstantType:    "timestamp(6) with time zone",
	InstantLiteral: "TIMESTAMP '{t} UTC'",
	TextType:       "varchar",
	NoAliases:      true,
	ComputesRowID:  true,
	RowNumber:      "row_number() OVER ()",
	Recreates:      true,
	Watches:        true,
	Defects:        defects,
	RowID: func(*warehouses.Dialect, warehouses.QualifiedName, warehouses.SQL) warehouses.SQL {
		return "bigint"
	},
	Version: version,
	WholeRow: func(columns []warehouses.SQL) warehouses.SQL {
		return "ROW(" + warehouses.Join(columns, ", ") + ")"
	},
	Stored: stored,
	TableOptions: func(d *warehouses.Dialect, s warehouses.Storage) warehouses.SQL {
		if s.Location == "" {
			return ""
		}
		return "\nWITH (location = " + d.Text(s.Location) + ")"
	},
	ParseType: parseType,
	HashPiece: hashPiece,
	// One lambda over the texts instead of an expression for each: 400 columns of the latter are more than the server plans.
	HashDigest: func(texts []warehouses.SQL) warehouses.SQL {
		return "lower(to_hex(md5(to_utf8(array_join(transform(ARRAY[" + warehouses.Join(texts, ", ") +
			"], etl_text -> coalesce('V' || CAST(length(etl_text) AS varchar) || ':' || etl_text, 'N')), '')))))"
	},
	OutOfRange: outOfRange,
	Templates:  statements,
}

// version is the snapshot that the table shows. A table that no engine has written yet may have none.
func version(d *warehouses.Dialect, target warehouses.QualifiedName) warehouses.SQL {
	target.Table += "$refs"
	return "(SELECT snapshot_id FROM " + d.Table(target) + " WHERE name = 'main')"
}

var kinds = map[string]warehouses.Kind{
	"varchar": warehouses.Text,
	"char":    warehouses.Char,
	"tinyint": warehouses.Integer, "smallint": warehouses.Integer, "integer": warehouses.Integer, "bigint": warehouses.Integer,
	"decimal": warehouses.Decimal,
	"real":    warehouses.Float, "double": warehouses.Float,
	"boolean":                  warehouses.Boolean,
	"date":                     warehouses.DateType,
	"timestamp":                warehouses.Timestamp,
	"timestamp with time zone": warehouses.TimestampTZ,
	"uuid":                     warehouses.UUID,
	"time":                     warehouses.TimeOfDay, "time with time zone": warehouses.TimeOfDay,
}

var (
	modifier = regexp.MustCompile(`\([0-9,]+\)`)
	scaled   = regexp.MustCompile(`^decimal\((\d+),(\d+)\)$`)
)

func parseType(text string) warehouses.Type {
	if text == "unknown" {
		return warehouses.Type{SQL: "varchar", Kind: warehouses.Text, Untyped: true}
	}
	t := warehouses.Type{SQL: warehouses.SQL(text), Kind: kinds[modifier.ReplaceAllString(text, "")]}
	if m := scaled.FindStringSubmatch(text); m != nil {
		t.Precision, _ = strconv.Atoi(m[1])
		t.Scale, _ = strconv.Atoi(m[2])
	}
	return t
}

// stored: Iceberg has no lengths, no integers below 32 bits and microseconds only.
func stored(t warehouses.Type, _ string) warehouses.Type {
	switch t.Kind {
	case warehouses.Text, warehouses.Char:
		t.SQL, t.Kind = "varchar", warehouses.Text
	case warehouses.Integer:
		if t.SQL != "bigint" {
			t.SQL = "integer"
		}
	case warehouses.Timestamp, warehouses.TimestampTZ, warehouses.TimeOfDay:
		zone := strings.HasSuffix(string(t.SQL), "with time zone")
		name, _, _ := strings.Cut(string(t.SQL), "(")
		t.SQL = warehouses.SQL(strings.TrimSuffix(name, " with time zone")) + "(6)"
		if zone {
			t.SQL += " with time zone"
		}
	case warehouses.Other:
		t.SQL = warehouses.SQL(nested.ReplaceAllStringFunc(string(t.SQL), storedInside))
	}
	return t
}

// nested finds the types inside an array, a map or a row, and quoted names of fields, which are none.
var nested = regexp.MustCompile(`"(?:[^"]|"")*"|\b(?:var)?char\(\d+\)|\btime(?:stamp)?\(\d+\)|\b(?:tinyint|smallint)[,)]|\bdecimal\(\d+, \d+\)`)

func storedInside(found string) string {
	name, more, _ := strings.Cut(found, "(")
	switch {
	case found[0] == '"':
		return found
	case strings.HasSuffix(name, "char"):
		return "varchar"
	case strings.HasPrefix(name, "time"):
		return name + "(6)"
	case name == "decimal":
		return "decimal(" + strings.Replace(more, " ", "", 1)
	}
	return "integer" + found[len(found)-1:]
}

// hashPiece is the text that HashDigest measures; every form was compared with digests made outside the database, see the
// conformance suite.
func hashPiece(c warehouses.SQL, t warehouses.Type) (warehouses.SQL, bool) {
	switch t.Kind {
	case warehouses.Text:
		return c, true
	case warehouses.Integer, warehouses.Decimal, warehouses.Boolean, warehouses.DateType, warehouses.UUID:
		return "CAST(" + c + " AS varchar)", true
	case warehouses.Timestamp:
		return "replace(CAST(" + c + " AS varchar), ' ', 'T')", true
	case warehouses.TimestampTZ:
		return "replace(CAST(CAST(" + c + " AT TIME ZONE 'UTC' AS timestamp(6)) AS varchar), ' ', 'T')", true
	}
	return "", false
}

func outOfRange(c warehouses.SQL, t warehouses.Type) warehouses.SQL {
	bounds := map[warehouses.Kind]warehouses.SQL{
		warehouses.DateType:    "DATE '0001-01-01' AND DATE '9999-12-31'",
		warehouses.Timestamp:   "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'",
		warehouses.TimestampTZ: "TIMESTAMP '0001-01-01 00:00:00 UTC' AND TIMESTAMP '9999-12-31 23:59:59.999999 UTC'",
	}[t.Kind]
	if bounds == "" {
		return ""
	}
	return c + " NOT BETWEEN " + bounds
}
