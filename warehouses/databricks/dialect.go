// Package databricks is the dialect of Databricks SQL warehouses: Delta tables, and Delta tables that Iceberg clients can
// read (UniForm).
package databricks

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

// Dialect is Databricks. Types are written as DESCRIBE prints them.
var Dialect = &warehouses.Dialect{
	Name:             "databricks",
	Product:          "Databricks",
	Syntax:           sqlscan.Databricks,
	Quote:            "`",
	Folds:            warehouses.FoldNone,
	BackslashEscapes: true,
	NamesDatabase:    true,
	Formats:          []string{warehouses.FormatNative, warehouses.FormatIceberg},
	StorageParams:    []string{"EXTERNAL_LOCATION"},
	BigInt:           "bigint",
	HashKeyType:      "string",
	UserType:         "string",
	FlagType:         "string",
	InstantType:      "timestamp",
	InstantLiteral:   "TIMESTAMP '{t}Z'",
	TextType:         "string",
	LosesLength:      true,
	ByteOrder:        " COLLATE UTF8_BINARY",
	ComputesRowID:    true,
	RowID: func(*warehouses.Dialect, warehouses.QualifiedName, warehouses.SQL) warehouses.SQL {
		return "bigint GENERATED ALWAYS AS IDENTITY"
	},
	Version:   version,
	RowNumber: "row_number() OVER (ORDER BY NULL)",
	WholeRow: func(columns []warehouses.SQL) warehouses.SQL {
		return "struct(s." + warehouses.Join(columns, ", s.") + ")"
	},
	TableOptions: tableOptions,
	ParseType:    parseType,
	HashPiece:    hashPiece,
	HashDigest: func(pieces []warehouses.SQL) warehouses.SQL {
		return "md5(concat(" + warehouses.Join(pieces, ", ") + "))"
	},
	OutOfRange: outOfRange,
	Templates:  statements,
}

// version is a fingerprint of the table: how many rows, in which files. Delta files never change; a row that goes either
// takes its file along or is marked as deleted in it, and one that comes or changes makes a new file. Delta has no SQL for
// the number of the snapshot that a statement reads.
func version(d *warehouses.Dialect, target warehouses.QualifiedName) warehouses.SQL {
	return "(SELECT concat(count(*), ':', coalesce(bit_xor(DISTINCT xxhash64(etl_version._metadata.file_path)), 0)) FROM " + d.Table(target) + " AS etl_version)"
}

// uniForm are the properties of a Delta table that Iceberg clients can read. Iceberg has no deletion vectors before its
// version 3.
const uniForm = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'false', 'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg'"

func tableOptions(d *warehouses.Dialect, s warehouses.Storage) warehouses.SQL {
	options := warehouses.SQL("\nUSING delta")
	if s.Format == warehouses.FormatIceberg {
		options += "\nTBLPROPERTIES (" + uniForm + ")"
	}
	if s.Location != "" {
		options += "\nLOCATION " + d.Text(s.Location)
	}
	return options
}

var kinds = map[string]warehouses.Kind{
	"string":        warehouses.Text,
	"varchar":       warehouses.Text,
	"char":          warehouses.Char,
	"tinyint":       warehouses.Integer,
	"smallint":      warehouses.Integer,
	"int":           warehouses.Integer,
	"bigint":        warehouses.Integer,
	"float":         warehouses.Float,
	"double":        warehouses.Float,
	"boolean":       warehouses.Boolean,
	"date":          warehouses.DateType,
	"timestamp_ntz": warehouses.Timestamp,
	"timestamp":     warehouses.TimestampTZ,
	"time":          warehouses.TimeOfDay,
}

var (
	decimal    = regexp.MustCompile(`^decimal\((\d+),\s*(\d+)\)$`)
	modified   = regexp.MustCompile(`^([a-z_]+)(?:\(\d+\)| collate (\w+))?$`)
	voidWithin = regexp.MustCompile(`\bvoid\b`)
)

// parseType reads what DESCRIBE prints. A column of type void can be made but not filled.
func parseType(text string) warehouses.Type {
	if typed := voidWithin.ReplaceAllString(text, "string"); typed != text {
		t := parseType(typed)
		t.Untyped = true
		return t
	}
	t := warehouses.Type{SQL: warehouses.SQL(text)}
	if m := decimal.FindStringSubmatch(text); m != nil {
		t.Kind = warehouses.Decimal
		t.Precision, _ = strconv.Atoi(m[1])
		t.Scale, _ = strconv.Atoi(m[2])
	} else if m := modified.FindStringSubmatch(strings.ToLower(text)); m != nil {
		t.Kind = kinds[m[1]]
		if m[2] != "utf8_binary" {
			t.Collation = m[2]
		}
	}
	return t
}

// hashPiece: every form was compared with digests made outside the database, see the conformance suite.
func hashPiece(c warehouses.SQL, t warehouses.Type) (warehouses.SQL, bool) {
	var f string
	switch t.Kind {
	case warehouses.Text:
		f = `coalesce(concat('V', length({c}), ':', {c}), 'N')`
	case warehouses.Char:
		f = `coalesce(concat('V', length(rtrim({c})), ':', rtrim({c})), 'N')`
	case warehouses.Decimal:
		f = `coalesce(concat('V', length(CAST({c} AS STRING)), ':', CAST({c} AS STRING)), 'N')`
		if t.Scale > 6 { // from there on a session without ANSI mode prints 1E-7
			picture := "'0." + strings.Repeat("0", t.Scale) + "'"
			f = `coalesce(concat('V', length(format_number({c}, ` + picture + `)), ':', format_number({c}, ` + picture + `)), 'N')`
		}
	case warehouses.Integer:
		f = `coalesce(concat('V', length(CAST({c} AS STRING)), ':', CAST({c} AS STRING)), 'N')`
	case warehouses.Boolean:
		f = `CASE WHEN {c} THEN 'V4:true' WHEN NOT {c} THEN 'V5:false' ELSE 'N' END`
	case warehouses.DateType:
		f = `coalesce(concat('V10:', CAST({c} AS STRING)), 'N')`
	case warehouses.Timestamp:
		f = instantPiece
	case warehouses.TimestampTZ: // without the session's zone, where one text may stand for two instants
		f = strings.ReplaceAll(instantPiece, "{c}", `(TIMESTAMP_NTZ '1970-01-01 00:00:00' + INTERVAL '0.000001' SECOND * unix_micros({c}))`)
	default:
		return "", false
	}
	return warehouses.SQL(strings.ReplaceAll(f, "{c}", string(c))), true
}

const instantPiece = `coalesce(concat('V26:', replace(substr(CAST({c} AS STRING), 1, 19), ' ', 'T'), '.', rpad(substr(CAST({c} AS STRING), 21), 6, '0')), 'N')`

func outOfRange(c warehouses.SQL, t warehouses.Type) warehouses.SQL {
	switch t.Kind {
	case warehouses.DateType:
		return c + " NOT BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
	case warehouses.Timestamp:
		return c + " NOT BETWEEN TIMESTAMP_NTZ '0001-01-01 00:00:00' AND TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"
	case warehouses.TimestampTZ:
		return "unix_micros(" + c + ") NOT BETWEEN -62135596800000000 AND 253402300799999999"
	}
	return ""
}
