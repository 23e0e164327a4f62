package warehouses

import (
	"slices"
	"strings"
)

// Kind sorts types by how the change hash and the checks treat them.
type Kind int

// Kinds of types.
const (
	Other Kind = iota // arrays, JSON, binary, intervals and whatever else cannot be hashed
	Text
	Char // blank-padded
	Integer
	Decimal
	Float
	Boolean
	DateType
	Timestamp // without time zone, read as UTC
	TimestampTZ
	TimestampNS // nanoseconds, where the warehouse has a type of its own for them
	UUID
	TimeOfDay
)

// Type is a column's complete type.
type Type struct {
	SQL       SQL // as the warehouse prints it, with length, precision and scale
	Kind      Kind
	Precision int    // of a Decimal with declared scale
	Scale     int    // of a Decimal; -1 when none was declared
	Untyped   bool   // a NULL without a type; SQL is what a new table would make of it
	Collation string // of a Text that takes different texts for equal; "" otherwise
}

// KeptApart reports whether different values of type t are still different when they are stored as type to, as far as
// warehouses store them at all: a time's digits below to's are not, wherever it comes from.
func (t Type) KeptApart(to Type) bool {
	if t.SQL == to.SQL || t.Untyped || to.Kind == Text {
		return true
	}
	switch to.Kind {
	case Char, UUID:
		return t.Kind == Text || t.Kind == Char
	case Integer:
		return t.Kind == Integer || t.Kind == Decimal && t.Scale == 0
	case Decimal:
		return t.Kind == Integer || t.Kind == Decimal && (to.Scale < 0 || t.Scale >= 0 && t.Scale <= to.Scale)
	case Timestamp, TimestampTZ, TimestampNS:
		return slices.Contains([]Kind{DateType, Timestamp, TimestampTZ, TimestampNS}, t.Kind)
	case TimeOfDay, Other:
		return t.Kind == to.Kind
	}
	return false
}

// Column is one column of a query or table.
type Column struct {
	Name string
	Type Type
}

// TableColumn is a column of an existing table.
type TableColumn struct {
	Column
	NotNull    bool
	HasDefault bool
	Computed   bool // by the table itself, from other columns: nothing may write it
	Generator  SQL  // the sequence behind the column, quoted and qualified; "" when the column is not generated
}

// Table is what inspection finds of an existing relation.
type Table struct {
	Name    QualifiedName
	Kind    string // "table"; anything else is a word for the error: "view", "partitioned table"
	Columns []TableColumn
	Format  string
}

// Replacement is what dropping a table, or putting a new one under its name, would meet.
type Replacement struct {
	Dependents []string // objects that keep the table from being replaced, for people
	Lost       []string // what a new table does not carry over, for people
	Owner      string
	NotOwned   bool     // the session's user may not replace the table
	Carry      []SQL    // statements that give the new table owner, grants and comment of the old one
	Options    SQL      // what a CREATE TABLE says after the name so that the new table gets the old one's properties
	Kept       []string // what a replacement in one statement cannot carry over and must not lose, for people
	Bound      []Bound  // what single columns have besides their values, where a replacement keeps the table
}

// NotNull is what a Bound says of a column that cannot be NULL.
const NotNull = "NOT NULL"

// Bound is something that a column has and that goes with it when the column is dropped.
type Bound struct {
	Column string
	What   string // for people
	Keeps  bool   // the column must not be dropped
}

// Storage says where a new table's files live, as far as a task may choose. Texts are "" where it did not.
type Storage struct {
	Format                        string // FormatNative or FormatIceberg
	Location                      string // of the files
	Volume, BaseLocation, Catalog string // of an Iceberg table
}

// Column finds a column by name, ignoring case; nil when there is none.
func (t *Table) Column(name string) *TableColumn {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return &t.Columns[i]
		}
	}
	return nil
}
