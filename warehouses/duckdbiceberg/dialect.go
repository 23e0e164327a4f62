// Package duckdbiceberg is the dialect of Iceberg tables that DuckDB writes through an Iceberg REST catalog.
package duckdbiceberg

import (
	"strings"

	"github.com/etl-craft/etl-craft/internal/sqlscan"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
)

// Dialect is Iceberg written by DuckDB. A transaction is one commit of the catalog, tied to the snapshot that it read.
var Dialect = &warehouses.Dialect{
	Name:           "duckdb_iceberg",
	Product:        "DuckDB-Iceberg",
	Syntax:         sqlscan.DuckDB,
	Quote:          `"`,
	Folds:          warehouses.FoldNone,
	DefaultSchema:  defaultSchema,
	Transactional:  true,
	SchemaFirst:    true,
	Reshapes:       true,
	QuietDDL:       true,
	Formats:        []string{warehouses.FormatIceberg},
	BigInt:         "BIGINT",
	HashKeyType:    "VARCHAR",
	UserType:       "VARCHAR",
	FlagType:       "VARCHAR",
	InstantType:    "TIMESTAMPTZ",
	InstantLiteral: duckdb.Dialect.InstantLiteral,
	TempTables:     true,
	WholeRow:       duckdb.Dialect.WholeRow,
	ByteOrder:      duckdb.Dialect.ByteOrder,
	ComputesRowID:  true,
	RowID:          func(*warehouses.Dialect, warehouses.QualifiedName, warehouses.SQL) warehouses.SQL { return "BIGINT" },
	RowNumber:      "row_number() OVER ()",
	Stored:         stored,
	Adds:           func(t warehouses.Type) bool { return !nested(string(t.SQL)) },
	ParseType:      duckdb.Dialect.ParseType,
	HashPiece:      duckdb.Dialect.HashPiece,
	HashDigest:     duckdb.Dialect.HashDigest,
	OutOfRange:     duckdb.Dialect.OutOfRange,
	Templates:      duckdb.Dialect.Templates,
}

// defaultSchema is where names without a schema are looked for. DuckDB's own default, main, would have to exist.
const defaultSchema = "default"

// wider are the types that format version 2 of Iceberg has for those that it lacks; "" where it has none that means the same.
var wider = map[string]string{
	"TINYINT": "INTEGER", "SMALLINT": "INTEGER", "UTINYINT": "INTEGER", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT",
	"UBIGINT": "DECIMAL(20,0)", "HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)",
	"TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
	"JSON": "VARCHAR", "BIT": "", "INTERVAL": "", "TIME WITH TIME ZONE": "", "TIME_NS": "", "BIGNUM": "", "VARIANT": "", "GEOMETRY": "",
}

func stored(t warehouses.Type, _ string) warehouses.Type {
	text := string(t.SQL)
	to, other := wider[text]
	switch {
	case strings.HasSuffix(text, "]"):
		if !strings.HasSuffix(text, "[]") { // an array, which has a length
			return warehouses.Type{}
		}
		return t
	case strings.HasPrefix(text, "ENUM("):
		to = "VARCHAR"
	case strings.HasPrefix(text, "UNION("):
		to = ""
	case !other:
		return t
	}
	if to == "" {
		return warehouses.Type{}
	}
	wide := duckdb.Dialect.ParseType(to)
	wide.Untyped = t.Untyped
	return wide
}

// nested reports whether values of the type consist of others.
func nested(text string) bool {
	return strings.HasSuffix(text, "]") || strings.HasPrefix(text, "STRUCT(") || strings.HasPrefix(text, "MAP(")
}
