// Package warehouses describes a warehouse to the rest of etl-craft: what it can do (Dialect, mostly data), what a
// statement looks like in it (templates), what an action would run (Plan), and how to run it (Session).
//
// Each dialect is a folder that fills these in; no dialect's name is used outside of it. warehousetest is the suite
// that every dialect passes against a real server.
package warehouses

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"text/template"

	"github.com/etl-craft/etl-craft/internal/sqlscan"
)

// Fold is what a warehouse does to names written without quotes.
type Fold int

// Ways to fold.
const (
	FoldNone Fold = iota
	FoldLower
	FoldUpper
)

// Table formats.
const (
	FormatNative  = "native"
	FormatIceberg = "iceberg"
)

// Dialect is what differs between warehouses, as data where possible.
type Dialect struct {
	Name    string // folder and file names: "duckdb"
	Product string // for people: "DuckDB"

	Syntax           sqlscan.Syntax // how its SQL is written
	Quote            string         // around identifiers
	Folds            Fold
	BackslashEscapes bool   // in string literals
	NamesDatabase    bool   // statements may name the database in front of the schema
	DefaultSchema    string // of names without one; "" where the session decides

	Transactional bool     // a whole action, DDL included, is one transaction; otherwise each statement commits alone
	QuietDDL      bool     // changing a table in a transaction that is rolled back makes nobody wait
	Formats       []string // table formats a task may ask for, the default first
	StorageParams []string // storage parameters that mean something here

	BigInt, HashKeyType, UserType, FlagType, InstantType SQL  // types of the columns the engine adds
	InstantLiteral                                       SQL  // a literal of InstantType with {t} for date and time in UTC
	TextType                                             SQL  // text of any length
	LosesLength                                          bool // a SELECT returns texts without a length, however it casts them
	TempTables                                           bool // scratch tables are temporary; otherwise they lie beside the target
	TempOptions                                          SQL  // between the name of a temporary table and AS
	ByteOrder                                            SQL  // suffix that orders text by its bytes
	NoAliases                                            bool // UPDATE takes no alias of its table, which qualifies columns by its own name

	Fences       bool // has the statements fence and lock_target
	Watches      bool // has running_statements: those of a task run that the server still works on
	IndexesStage bool // has index_stage and analyze_stage: the planner needs them before joined updates
	Sequences    bool // ROW_ID draws from a sequence of its own: create_sequence and drop_sequence
	Continues    bool // has continue_generator: a new table's generator goes on where the old one's ended

	Privileges bool     // has schema_rights, table_rights and grants
	Defects    []Defect // of versions, for doctor

	Ungenerated []string // formats whose new tables have no generator behind ROW_ID

	// SchemaFirst: the schema of a new table has to be there before the transaction that makes the table begins.
	SchemaFirst bool
	// Reshapes: CREATE_TABLE keeps a table that is there and gives it new columns and rows in one transaction, because no
	// other table could take its place in one. A transaction cannot make a table of a name that it has dropped.
	Reshapes bool
	// Adds tells whether a column of this type can be added to a table; nil where all can.
	Adds func(t Type) bool

	// ComputesRowID: a ROW_ID without a generator gets the highest one there is plus a row number.
	ComputesRowID bool
	// RowID defines the ROW_ID column of a new table; old is the generator of the table it replaces, or "".
	RowID func(d *Dialect, target QualifiedName, old SQL) SQL
	// Version renders a value that changes whenever the target's rows do. A statement that reads it sees that of the rows it
	// works on. Only dialects that are not Transactional have it.
	Version func(d *Dialect, target QualifiedName) SQL
	// RowNumber numbers rows, in any order.
	RowNumber SQL
	// WholeRow renders a value of the columns of the row alias s that is distinct when rows differ in any of them.
	WholeRow func(columns []SQL) SQL
	// Stored is the type that a column of a new table of this format gets when the SELECT returns this one; nil where that is
	// the same. A Type without SQL says that tables cannot store it.
	Stored func(t Type, format string) Type

	// TableOptions renders what CREATE TABLE says of a new table's storage; nil where there is nothing to say.
	TableOptions func(d *Dialect, s Storage) SQL
	// Recreates: OVERWRITE_TABLE is one statement that makes the table anew, with the properties of the old one.
	Recreates bool

	// ParseType reads a type as the warehouse prints it.
	ParseType func(text string) Type
	// HashPiece renders one never-NULL piece of the change hash over an expression of type t; false when t cannot be
	// hashed.
	HashPiece func(expr SQL, t Type) (SQL, bool)
	// HashDigest renders the digest of the joined pieces.
	HashDigest func(pieces []SQL) SQL
	// OutOfRange is a condition that holds when expr, a date or timestamp of type t, lies outside the years 1 to 9999;
	// "" for other types.
	OutOfRange func(expr SQL, t Type) SQL

	// Templates holds the dialect's own statements; those it lacks are taken from the shared ones.
	Templates fs.FS

	once   sync.Once
	parsed *template.Template
}

//go:embed sql/*.sql.tmpl
var shared embed.FS

// Render fills the statement template of this name. Templates are part of the program, so an error is a defect and
// panics.
func (d *Dialect) Render(name string, data any) SQL {
	d.once.Do(d.parse)
	var b strings.Builder
	if err := d.parsed.ExecuteTemplate(&b, name+".sql.tmpl", data); err != nil {
		panic(fmt.Sprintf("statement %s of %s: %v", name, d.Name, err))
	}
	return SQL(strings.TrimSpace(b.String()))
}

func (d *Dialect) parse() {
	d.parsed = template.New("").Funcs(template.FuncMap{
		"list":    func(parts []SQL) SQL { return Join(parts, ",\n  ") },
		"inline":  func(parts []SQL) SQL { return Join(parts, ", ") },
		"of":      qualify,
		"equal":   joinKeys,
		"anyNull": func(parts []SQL) SQL { return Join(suffix(parts, " IS NULL"), " OR ") },
		"first":   func(parts []SQL) SQL { return parts[0] },
		"dialect": func() *Dialect { return d },
		"nulls": func(parts []SQL) SQL {
			all := make([]SQL, len(parts))
			for i := range all {
				all[i] = "NULL"
			}
			return Join(all, ", ")
		},
		"scratch": func() SQL {
			if d.TempTables {
				return "CREATE TEMP TABLE"
			}
			return "CREATE TABLE"
		},
	})
	template.Must(d.parsed.ParseFS(shared, "sql/*.sql.tmpl"))
	if d.Templates != nil {
		template.Must(d.parsed.ParseFS(d.Templates, "sql/*.sql.tmpl"))
	}
}

// qualify puts a row alias in front of every column.
func qualify(alias string, columns []SQL) []SQL {
	out := make([]SQL, len(columns))
	for i, c := range columns {
		out[i] = SQL(alias) + "." + c
	}
	return out
}

func suffix(parts []SQL, end SQL) []SQL {
	out := make([]SQL, len(parts))
	for i, p := range parts {
		out[i] = p + end
	}
	return out
}

// joinKeys compares the columns of two row aliases, all of them.
func joinKeys(left, right string, columns []SQL) SQL {
	out := make([]SQL, len(columns))
	for i, c := range columns {
		out[i] = SQL(left) + "." + c + " = " + SQL(right) + "." + c
	}
	return Join(out, " AND ")
}
