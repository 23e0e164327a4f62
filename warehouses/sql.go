package warehouses

import (
	"strconv"
	"strings"
	"time"
)

// SQL is text that may stand in a statement: rendered by a Dialect, or a constant of this program, or the user's
// checked SELECT. Statement templates take nothing else, so no plain string can enter a statement.
type SQL string

// QualifiedName names a table: database.schema.table, each part as the warehouse stores it.
type QualifiedName struct{ Database, Schema, Table string }

// String is the name as people write it.
func (n QualifiedName) String() string {
	if n.Database == "" {
		return n.Schema + "." + n.Table
	}
	return n.Database + "." + n.Schema + "." + n.Table
}

// Key is the name folded to lower case, the same for every spelling that means one table.
func (n QualifiedName) Key() string { return strings.ToLower(n.String()) }

// Ident quotes a name.
func (d *Dialect) Ident(name string) SQL {
	return SQL(d.Quote + strings.ReplaceAll(name, d.Quote, d.Quote+d.Quote) + d.Quote)
}

// Idents quotes names.
func (d *Dialect) Idents(names []string) []SQL {
	out := make([]SQL, len(names))
	for i, n := range names {
		out[i] = d.Ident(n)
	}
	return out
}

// Table quotes each part of a qualified name.
func (d *Dialect) Table(n QualifiedName) SQL {
	s := d.Ident(n.Schema) + "." + d.Ident(n.Table)
	if n.Database != "" && d.NamesDatabase {
		s = d.Ident(n.Database) + "." + s
	}
	return s
}

// Schema quotes the schema that a table is in.
func (d *Dialect) Schema(n QualifiedName) SQL {
	if n.Database == "" || !d.NamesDatabase {
		return d.Ident(n.Schema)
	}
	return d.Ident(n.Database) + "." + d.Ident(n.Schema)
}

// Text is a string literal.
func (d *Dialect) Text(s string) SQL {
	if d.BackslashEscapes { // not all of these warehouses take two quotes for one: some read two strings and join them
		return SQL("'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'")
	}
	return SQL("'" + strings.ReplaceAll(s, "'", "''") + "'")
}

// Int is an integer literal.
func Int(n int64) SQL { return SQL(strconv.FormatInt(n, 10)) }

// Instant is a point in time with microseconds, in UTC.
func (d *Dialect) Instant(t time.Time) SQL {
	return SQL(strings.ReplaceAll(string(d.InstantLiteral), "{t}", t.UTC().Format("2006-01-02 15:04:05.000000")))
}

// Date is a DATE literal.
func Date(t time.Time) SQL { return SQL("DATE '" + t.Format("2006-01-02") + "'") }

// Join puts sep between the parts.
func Join(parts []SQL, sep string) SQL {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = string(p)
	}
	return SQL(strings.Join(texts, sep))
}

// FoldName is how the warehouse stores an unquoted name.
func (d *Dialect) FoldName(name string) string {
	switch d.Folds {
	case FoldLower:
		return strings.ToLower(name)
	case FoldUpper:
		return strings.ToUpper(name)
	}
	return name
}
