// Package snowflake is the dialect of Snowflake: native tables, and Iceberg tables whose catalog is Snowflake.
package snowflake

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/internal/sqlscan"
	"github.com/etl-craft/etl-craft/warehouses"
)

//go:embed sql/*.sql.tmpl
var statements embed.FS

// Dialect is Snowflake. Types are written as DESCRIBE TABLE prints them. Those of the engine's columns are types that Iceberg
// tables have too: texts without a length, microseconds, and integers that are a long there.
var Dialect = &warehouses.Dialect{
	Name:             "snowflake",
	Product:          "Snowflake",
	Syntax:           sqlscan.Snowflake,
	Quote:            `"`,
	Folds:            warehouses.FoldUpper,
	BackslashEscapes: true,
	NamesDatabase:    true,
	Formats:          []string{warehouses.FormatNative, warehouses.FormatIceberg},
	StorageParams:    []string{"EXTERNAL_VOLUME", "BASE_LOCATION", "CATALOG"},
	BigInt:           "NUMBER(19,0)",
	HashKeyType:      "VARCHAR",
	UserType:         "VARCHAR",
	FlagType:         "VARCHAR",
	InstantType:      "TIMESTAMP_LTZ(6)",
	InstantLiteral:   "CAST('{t}+00:00' AS TIMESTAMP_LTZ(6))",
	TextType:         "VARCHAR",
	TempTables:       true,
	ByteOrder:        " COLLATE 'utf8'",
	ComputesRowID:    true,
	NoAliases:        true,
	Ungenerated:      []string{warehouses.FormatIceberg},
	RowID: func(*warehouses.Dialect, warehouses.QualifiedName, warehouses.SQL) warehouses.SQL {
		return "NUMBER(19,0) AUTOINCREMENT START 1 INCREMENT 1 ORDER"
	},
	Version: func(d *warehouses.Dialect, target warehouses.QualifiedName) warehouses.SQL {
		return "SYSTEM$LAST_CHANGE_COMMIT_TIME(" + d.Text(string(d.Table(target))) + ")"
	},
	RowNumber:    "row_number() OVER (ORDER BY 1)",
	WholeRow:     wholeRow,
	Stored:       stored,
	TableOptions: tableOptions,
	ParseType:    parseType,
	HashPiece:    hashPiece,
	HashDigest: func(pieces []warehouses.SQL) warehouses.SQL {
		return "md5(" + warehouses.Join(pieces, " || ") + ")"
	},
	OutOfRange: outOfRange,
	Templates:  statements,
}

// wholeRow numbers the columns, because their names could be anything.
func wholeRow(columns []warehouses.SQL) warehouses.SQL {
	var pairs []warehouses.SQL
	for i, c := range columns {
		pairs = append(pairs, warehouses.SQL(fmt.Sprintf("'%d', s.%s", i+1, c)))
	}
	return "to_json(object_construct_keep_null(" + warehouses.Join(pairs, ", ") + "))"
}

// tableOptions says where the files of a new Iceberg table live.
func tableOptions(d *warehouses.Dialect, s warehouses.Storage) warehouses.SQL {
	if s.Format != warehouses.FormatIceberg {
		return ""
	}
	volume, catalog := s.Volume, s.Catalog
	if volume == "" {
		volume = managedVolume
	}
	if catalog == "" {
		catalog = ownCatalog
	}
	options := "\n  EXTERNAL_VOLUME = " + d.Text(volume) + "\n  CATALOG = " + d.Text(catalog)
	if s.BaseLocation != "" {
		options += "\n  BASE_LOCATION = " + d.Text(s.BaseLocation)
	}
	return options
}

// Where Iceberg tables live unless a task says otherwise.
const (
	managedVolume = "SNOWFLAKE_MANAGED"
	ownCatalog    = "SNOWFLAKE"
)

// stored gives columns of Iceberg tables types that these have.
func stored(t warehouses.Type, format string) warehouses.Type {
	if format != warehouses.FormatIceberg {
		return t
	}
	to := ""
	switch t.Kind {
	case warehouses.Text: // of the greatest length only, which is not everywhere the same
		return warehouses.Type{SQL: "VARCHAR", Kind: warehouses.Text, Untyped: t.Untyped, Collation: t.Collation}
	case warehouses.Timestamp:
		to = "TIMESTAMP_NTZ(6)"
	case warehouses.TimestampTZ:
		to = "TIMESTAMP_LTZ(6)"
	case warehouses.TimeOfDay:
		to = "TIME(6)"
	default:
		if strings.HasPrefix(string(t.SQL), "BINARY(") {
			t.SQL = "BINARY"
		}
		return t
	}
	untyped := t.Untyped
	t = parseType(to)
	t.Untyped = untyped
	return t
}

var (
	number = regexp.MustCompile(`^NUMBER\((\d+),(\d+)\)$`)
	plain  = regexp.MustCompile(`^([A-Z_]+)(?:\(\d+\))?(?: COLLATE '(.*)')?$`)
)

var kinds = map[string]warehouses.Kind{
	"VARCHAR":       warehouses.Text,
	"FLOAT":         warehouses.Float,
	"BOOLEAN":       warehouses.Boolean,
	"DATE":          warehouses.DateType,
	"TIMESTAMP_NTZ": warehouses.Timestamp,
	"TIMESTAMP_LTZ": warehouses.TimestampTZ,
	"TIMESTAMP_TZ":  warehouses.TimestampTZ,
	"TIME":          warehouses.TimeOfDay,
}

// aliases are types as statements write them that DESCRIBE prints otherwise.
var aliases = map[string]string{"VARCHAR": "VARCHAR(16777216)", "INTEGER": "NUMBER(38,0)", "BIGINT": "NUMBER(38,0)"}

func parseType(text string) warehouses.Type {
	if full, ok := aliases[text]; ok {
		text = full
	}
	t := warehouses.Type{SQL: warehouses.SQL(text)}
	if m := number.FindStringSubmatch(text); m != nil {
		t.Kind = warehouses.Decimal
		t.Precision, _ = strconv.Atoi(m[1])
		t.Scale, _ = strconv.Atoi(m[2])
		if t.Scale == 0 {
			t.Kind = warehouses.Integer
		}
		return t
	}
	if m := plain.FindStringSubmatch(text); m != nil {
		t.Kind = kinds[m[1]]
		if m[2] != "utf8" {
			t.Collation = m[2]
		}
	}
	return t
}

// hashPiece writes every format out, because the session's could be set by the user's own statements.
func hashPiece(c warehouses.SQL, t warehouses.Type) (warehouses.SQL, bool) {
	var f string
	switch t.Kind {
	case warehouses.Text:
		f = `coalesce('V' || to_varchar(length({c})) || ':' || {c}, 'N')`
	case warehouses.Integer:
		f = `coalesce('V' || to_varchar(length(to_varchar({c}))) || ':' || to_varchar({c}), 'N')`
	case warehouses.Decimal:
		digits := to(fmt.Sprintf("to_varchar({c}, '%s')", picture(t.Precision, t.Scale)), c)
		f = `coalesce('V' || to_varchar(length(` + digits + `)) || ':' || ` + digits + `, 'N')`
	case warehouses.Boolean:
		f = `CASE WHEN {c} THEN 'V4:true' WHEN NOT {c} THEN 'V5:false' ELSE 'N' END`
	case warehouses.DateType:
		f = `coalesce('V10:' || to_varchar({c}, 'YYYY-MM-DD'), 'N')`
	case warehouses.Timestamp: // cut off, whatever FF6 would round
		f = `coalesce('V26:' || left(to_varchar(CAST({c} AS TIMESTAMP_NTZ), 'YYYY-MM-DD"T"HH24:MI:SS.FF9'), 26), 'N')`
	case warehouses.TimestampTZ:
		f = `coalesce('V26:' || left(to_varchar(CAST(convert_timezone('UTC', {c}) AS TIMESTAMP_NTZ), 'YYYY-MM-DD"T"HH24:MI:SS.FF9'), 26), 'N')`
	default:
		return "", false
	}
	return warehouses.SQL(to(f, c)), true
}

func to(format string, c warehouses.SQL) string { return strings.ReplaceAll(format, "{c}", string(c)) }

// picture prints all digits of a decimal, and one before the point.
func picture(precision, scale int) string {
	return "FM" + strings.Repeat("9", max(precision-scale-1, 0)) + "0." + strings.Repeat("0", scale)
}

func outOfRange(c warehouses.SQL, t warehouses.Type) warehouses.SQL {
	switch t.Kind {
	case warehouses.DateType, warehouses.Timestamp, warehouses.TimestampTZ:
		if t.Kind == warehouses.TimestampTZ {
			c = "convert_timezone('UTC', " + c + ")"
		}
		return "(date_part(year, " + c + ") NOT BETWEEN 1 AND 9999)"
	}
	return ""
}
