// Package sqlscan reads the SELECT of a task as text: whether it is one read-only query, which $$ tokens it holds, which
// columns it lists and which tables it names.
//
// It is a lexer with switches per warehouse and a few rules on its tokens, not a parser: a text it accepts can still be
// a syntax error for the warehouse, but not a write and not two statements. What functions do is beyond it.
package sqlscan

// Syntax says how a warehouse writes strings, names and comments.
type Syntax struct {
	Warehouse string // for messages

	DollarQuotes      bool // $$…$$ is a string
	TaggedDollar      bool // and so is $tag$…$tag$
	EscapeStrings     bool // E'…' has backslash escapes, also where it continues on the next line
	BackslashEscapes  bool // every '…' has them
	RawStrings        bool // except r'…'
	DoubleQuoteString bool // "…" is a string, not a name
	UnicodeQuotes     bool // U&"…" is a name, U&'…' a string
	Backticks         bool // `…` is a name

	NestedComments  bool // /* /* */ */ is one comment
	SlashComments   bool // // begins a comment
	CommentContinue bool // a backslash at the end of a -- comment continues it on the next line

	DollarInNames  bool // a$b is one name
	DollarParams   bool // $1 and $name are parameters of a prepared statement
	QuestionParams bool // ? is one

	FromFirst     bool // FROM t, PIVOT and UNPIVOT can begin a query
	StatementPipe bool // ->> joins statements
	RecursiveCTEs bool // a CTE may read itself without the word RECURSIVE

	Fold Fold
}

// Fold is what a warehouse makes of a name without quotes.
type Fold int

// Values of Fold.
const (
	FoldNone  Fold = iota // keeps it, and compares all names without regard to case
	FoldLower             // to lower case
	FoldUpper             // to upper case
)

// The warehouses' syntax. PostgreSQL's and DuckDB's are tested against the servers; PostgreSQL's supposes
// standard_conforming_strings = on.
var (
	PostgreSQL = Syntax{
		Warehouse:    "PostgreSQL",
		DollarQuotes: true, TaggedDollar: true, EscapeStrings: true, UnicodeQuotes: true,
		NestedComments: true, DollarInNames: true, DollarParams: true,
		Fold: FoldLower,
	}
	DuckDB = Syntax{
		Warehouse:    "DuckDB",
		DollarQuotes: true, TaggedDollar: true, EscapeStrings: true, UnicodeQuotes: true,
		NestedComments: true, DollarInNames: true, DollarParams: true, QuestionParams: true,
		FromFirst: true,
	}
	Trino = Syntax{
		Warehouse:     "Trino",
		UnicodeQuotes: true, // names keep their quotes' case and are compared without
	}
	Snowflake = Syntax{
		Warehouse:    "Snowflake",
		DollarQuotes: true, BackslashEscapes: true,
		SlashComments: true, DollarInNames: true, StatementPipe: true, RecursiveCTEs: true,
		Fold: FoldUpper,
	}
	Databricks = Syntax{
		Warehouse:        "Databricks",
		BackslashEscapes: true, RawStrings: true, DoubleQuoteString: true, Backticks: true,
		NestedComments: true, CommentContinue: true,
	}
)
