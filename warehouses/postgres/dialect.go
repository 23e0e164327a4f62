// Package postgres is the dialect of PostgreSQL 14 to 18.
package postgres

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

// Dialect is PostgreSQL. Types are written as format_type prints them.
var Dialect = &warehouses.Dialect{
	Name:           "postgres",
	Product:        "PostgreSQL",
	Syntax:         sqlscan.PostgreSQL,
	Quote:          `"`,
	Folds:          warehouses.FoldLower,
	Transactional:  true,
	Formats:        []string{warehouses.FormatNative},
	BigInt:         "bigint",
	HashKeyType:    "character varying(32)",
	UserType:       "character varying(255)",
	FlagType:       "character varying(1)",
	InstantType:    "timestamp with time zone",
	InstantLiteral: "timestamp with time zone '{t}+00'",
	TempTables:     true,
	TempOptions:    " ON COMMIT DROP",
	WholeRow:       func([]warehouses.SQL) warehouses.SQL { return "md5(record_send(s.*))" }, // s alone would be a column of that name, where there is one
	ByteOrder:      `::text COLLATE "C"`,                                                     // the cast is for enumerations, which have no collation
	Fences:         true,
	IndexesStage:   true,
	Continues:      true,
	Privileges:     true,
	Defects:        defects,
	RowID: func(*warehouses.Dialect, warehouses.QualifiedName, warehouses.SQL) warehouses.SQL {
		return "bigint GENERATED ALWAYS AS IDENTITY"
	},
	ParseType: parseType,
	HashPiece: hashPiece,
	HashDigest: func(pieces []warehouses.SQL) warehouses.SQL {
		return "md5(convert_to(" + warehouses.Join(pieces, " || ") + ", 'UTF8'))"
	},
	OutOfRange: outOfRange,
	Templates:  statements,
}

var kinds = map[string]warehouses.Kind{
	"text":                        warehouses.Text,
	"character varying":           warehouses.Text,
	"character":                   warehouses.Char,
	"bpchar":                      warehouses.Char,
	"smallint":                    warehouses.Integer,
	"integer":                     warehouses.Integer,
	"bigint":                      warehouses.Integer,
	"numeric":                     warehouses.Decimal,
	"real":                        warehouses.Float,
	"double precision":            warehouses.Float,
	"boolean":                     warehouses.Boolean,
	"date":                        warehouses.DateType,
	"timestamp without time zone": warehouses.Timestamp,
	"timestamp with time zone":    warehouses.TimestampTZ,
	"time without time zone":      warehouses.TimeOfDay,
	"time with time zone":         warehouses.TimeOfDay,
	"uuid":                        warehouses.UUID,
}

var (
	modifier = regexp.MustCompile(`\([0-9,-]+\)`)
	scaled   = regexp.MustCompile(`^numeric\((\d+),(-?\d+)\)$`)
)

// parseType reads what format_type prints. Enumerations and domains need the catalog, see session.types.
func parseType(text string) warehouses.Type {
	if text == "unknown" {
		return warehouses.Type{SQL: "text", Kind: warehouses.Text, Untyped: true}
	}
	t := warehouses.Type{SQL: warehouses.SQL(text), Kind: kinds[modifier.ReplaceAllString(text, "")]}
	if t.Kind != warehouses.Decimal {
		return t
	}
	t.Scale = -1
	if m := scaled.FindStringSubmatch(text); m != nil {
		t.Precision, _ = strconv.Atoi(m[1])
		t.Scale, _ = strconv.Atoi(m[2])
		t.Scale = max(t.Scale, 0) // numeric(5,-2) rounds to hundreds and prints no fraction
	}
	return t
}

// hashPiece: every form was compared with digests made outside the database, see the conformance suite.
func hashPiece(c warehouses.SQL, t warehouses.Type) (warehouses.SQL, bool) {
	var f string
	switch t.Kind {
	case warehouses.Decimal:
		if t.Scale < 0 {
			return "", false
		}
		fallthrough
	case warehouses.Text, warehouses.Char, warehouses.Integer:
		f = `coalesce('V' || char_length({c}::text) || ':' || {c}::text, 'N')`
	case warehouses.Boolean:
		f = `CASE WHEN {c} THEN 'V4:true' WHEN NOT {c} THEN 'V5:false' ELSE 'N' END`
	case warehouses.DateType: // without the cast to timestamp, to_char would go through the session's time zone
		f = instantPiece(`'V10:' || to_char({c}::timestamp, 'YYYY-MM-DD')`)
	case warehouses.Timestamp:
		f = instantPiece(`'V26:' || to_char({c}, 'YYYY-MM-DD"T"HH24:MI:SS.US')`)
	case warehouses.TimestampTZ:
		f = instantPiece(`'V26:' || to_char({c} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`)
	case warehouses.UUID:
		f = `coalesce('V36:' || {c}::text, 'N')`
	default:
		return "", false
	}
	return warehouses.SQL(strings.ReplaceAll(f, "{c}", string(c))), true
}

func instantPiece(finite string) string {
	return `CASE WHEN isfinite({c}) THEN ` + finite + ` WHEN {c} IS NULL THEN 'N' WHEN {c} > '2000-01-01' THEN 'V8:infinity' ELSE 'V9:-infinity' END`
}

func outOfRange(c warehouses.SQL, t warehouses.Type) warehouses.SQL {
	bounds := map[warehouses.Kind]warehouses.SQL{
		warehouses.DateType:    "DATE '0001-01-01' AND DATE '9999-12-31'",
		warehouses.Timestamp:   "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'",
		warehouses.TimestampTZ: "TIMESTAMPTZ '0001-01-01 00:00:00+00' AND TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'",
	}[t.Kind]
	if bounds == "" {
		return ""
	}
	return "(isfinite(" + c + ") AND " + c + " NOT BETWEEN " + bounds + ")"
}
