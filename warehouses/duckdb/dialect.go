// Package duckdb is the dialect of a native DuckDB file.
package duckdb

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

// Dialect is native DuckDB.
var Dialect = &warehouses.Dialect{
	Name:           "duckdb",
	Product:        "DuckDB",
	Syntax:         sqlscan.DuckDB,
	Quote:          `"`,
	Folds:          warehouses.FoldNone,
	DefaultSchema:  "main",
	Transactional:  true,
	QuietDDL:       true,
	Formats:        []string{warehouses.FormatNative},
	BigInt:         "BIGINT",
	HashKeyType:    "VARCHAR",
	UserType:       "VARCHAR",
	FlagType:       "VARCHAR",
	InstantType:    "TIMESTAMPTZ",
	InstantLiteral: "TIMESTAMPTZ '{t}+00'",
	TempTables:     true,
	WholeRow:       func([]warehouses.SQL) warehouses.SQL { return "row(*COLUMNS(s.*))" }, // not s, which would be a column of that name
	ByteOrder:      " COLLATE C",
	Sequences:      true,
	RowID:          rowID,
	ParseType:      parseType,
	HashPiece:      hashPiece,
	HashDigest: func(pieces []warehouses.SQL) warehouses.SQL {
		return "md5(concat(" + warehouses.Join(pieces, ", ") + "))"
	},
	OutOfRange: outOfRange,
	Templates:  statements,
}

// rowID draws from a sequence, that of the replaced table when there is one.
func rowID(d *warehouses.Dialect, target warehouses.QualifiedName, old warehouses.SQL) warehouses.SQL {
	if old == "" {
		target.Table = "etl_seq_" + target.Table + "_row_id"
		old = d.Table(target)
	}
	return "BIGINT DEFAULT nextval(" + d.Text(string(old)) + ")"
}

var decimal = regexp.MustCompile(`^DECIMAL\((\d+),(\d+)\)$`)

var kinds = map[string]warehouses.Kind{
	"VARCHAR": warehouses.Text,
	"TINYINT": warehouses.Integer, "SMALLINT": warehouses.Integer, "INTEGER": warehouses.Integer, "BIGINT": warehouses.Integer, "HUGEINT": warehouses.Integer,
	"UTINYINT": warehouses.Integer, "USMALLINT": warehouses.Integer, "UINTEGER": warehouses.Integer, "UBIGINT": warehouses.Integer, "UHUGEINT": warehouses.Integer,
	"FLOAT": warehouses.Float, "DOUBLE": warehouses.Float,
	"BOOLEAN":   warehouses.Boolean,
	"DATE":      warehouses.DateType,
	"TIMESTAMP": warehouses.Timestamp, "TIMESTAMP_S": warehouses.Timestamp, "TIMESTAMP_MS": warehouses.Timestamp,
	"TIMESTAMP_NS":             warehouses.TimestampNS,
	"TIMESTAMP WITH TIME ZONE": warehouses.TimestampTZ,
	"UUID":                     warehouses.UUID,
	"TIME":                     warehouses.TimeOfDay, "TIME WITH TIME ZONE": warehouses.TimeOfDay,
}

// aliases are types as statements write them that DESCRIBE prints otherwise.
var aliases = map[string]string{"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}

func parseType(text string) warehouses.Type {
	if full, ok := aliases[text]; ok {
		text = full
	}
	t := warehouses.Type{SQL: warehouses.SQL(text), Kind: kinds[text]}
	if m := decimal.FindStringSubmatch(text); m != nil {
		t.Kind = warehouses.Decimal
		t.Precision, _ = strconv.Atoi(m[1])
		t.Scale, _ = strconv.Atoi(m[2])
	}
	if strings.HasPrefix(text, "ENUM(") && !strings.HasSuffix(text, "]") {
		t.Kind = warehouses.Text
	}
	return t
}

// hashPiece: every form was compared with digests made outside the database, see the conformance suite.
func hashPiece(c warehouses.SQL, t warehouses.Type) (warehouses.SQL, bool) {
	var f string
	switch t.Kind {
	case warehouses.Text:
		f = `CASE WHEN {c} IS NULL THEN 'N' ELSE concat('V', length({c}::VARCHAR), ':', {c}::VARCHAR COLLATE C) END`
	case warehouses.Integer, warehouses.DateType:
		f = `CASE WHEN {c} IS NULL THEN 'N' ELSE concat('V', length({c}::VARCHAR), ':', {c}::VARCHAR) END`
	case warehouses.Decimal:
		f = `CASE WHEN {c} IS NULL THEN 'N' ELSE concat('V', length({c}::VARCHAR), ':', {c}::VARCHAR) END`
		if t.Scale == t.Precision { // DuckDB prints .50, without the leading zero
			f = fmt.Sprintf(`CASE WHEN {c} >= 0 THEN 'V%d:0' || {c}::VARCHAR ELSE coalesce('V%d:-0' || substr({c}::VARCHAR, 2), 'N') END`, t.Precision+2, t.Precision+3)
		}
	case warehouses.Boolean:
		f = `CASE WHEN {c} THEN 'V4:true' WHEN NOT {c} THEN 'V5:false' ELSE 'N' END`
	case warehouses.Timestamp, warehouses.TimestampTZ:
		f = `coalesce('V26:' || strftime(make_timestamp(epoch_us({c})), '%Y-%m-%dT%H:%M:%S.%f'), CASE {c} WHEN 'infinity' THEN 'V8:infinity' WHEN '-infinity' THEN 'V9:-infinity' END, 'N')`
	case warehouses.TimestampNS:
		f = `CASE WHEN isfinite({c}) THEN 'V26:' || strftime({c}, '%Y-%m-%dT%H:%M:%S.%f') WHEN {c} IS NULL THEN 'N' WHEN {c} > '2000-01-01' THEN 'V8:infinity' ELSE 'V9:-infinity' END`
	case warehouses.UUID:
		f = `coalesce('V36:' || {c}::VARCHAR, 'N')`
	default:
		return "", false
	}
	return warehouses.SQL(strings.ReplaceAll(f, "{c}", string(c))), true
}

func outOfRange(c warehouses.SQL, t warehouses.Type) warehouses.SQL {
	switch t.Kind {
	case warehouses.DateType:
		return "(isfinite(" + c + ") AND " + c + " NOT BETWEEN DATE '0001-01-01' AND DATE '9999-12-31')"
	case warehouses.Timestamp, warehouses.TimestampTZ:
		return "(isfinite(" + c + ") AND epoch_us(" + c + ") NOT BETWEEN -62135596800000000 AND 253402300799999999)"
	}
	return ""
}
