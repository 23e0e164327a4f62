package handlers

import (
	"regexp"
	"strings"

	"github.com/etl-craft/etl-craft/internal/sqlscan"
)

// Tracer is a Handler that tells which tables a task reads and writes, from its parameters and files alone.
type Tracer interface {
	Handler
	// Trace never fails: what it cannot tell is in Trace.Unknown.
	Trace(env *Env, task *Task) Trace
}

// Trace is which tables a task reads and which one it writes.
type Trace struct {
	Writes  *TableName  // nil when the task names none
	Effect  Effect      // on what it writes
	Reads   []TableName // each once, in the order of the text
	Unknown []string    // why there may be more that the task reads or writes: a clause each
}

// Effect is what a task does to the table that it writes.
type Effect int

// Effects.
const (
	ChangesRows Effect = iota
	MakesEmpty         // creates the table, without rows, when it does not exist
	Drops
)

// TableName is a table as two tasks have to name it to mean the same one.
type TableName struct {
	Name string // as people write it, without the default database
	Key  string // equal for every spelling of one table
}

// Table is the table that the dotted name parts means: one to three parts, the table's the last. ok is false when a schema
// is missing that only the session knows.
func (env *Env) Table(parts []sqlscan.Ident) (t TableName, ok bool) {
	if len(parts) == 1 {
		if env.Dialect.DefaultSchema == "" {
			return TableName{}, false
		}
		parts = []sqlscan.Ident{{Name: env.Dialect.DefaultSchema, Quoted: true}, parts[0]}
	}
	var keys, names []string
	for _, p := range parts {
		keys = append(keys, env.Dialect.Syntax.Key(p))
		names = append(names, env.spelled(p))
	}
	if database := env.Dialect.Syntax.Key(sqlscan.Ident{Name: env.Database, Quoted: true}); len(parts) == 3 && keys[0] == database {
		keys, names = keys[1:], names[1:]
	}
	return TableName{Name: strings.Join(names, "."), Key: strings.Join(keys, "\x00")}, true
}

var needsNoQuotes = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]*$`)

// spelled is a part of a name as the warehouse stores it, in quotes where it cannot be written without.
func (env *Env) spelled(p sqlscan.Ident) string {
	d := env.Dialect
	if !p.Quoted {
		return d.FoldName(p.Name)
	}
	if needsNoQuotes.MatchString(p.Name) && d.FoldName(p.Name) == p.Name {
		return p.Name
	}
	return string(d.Ident(p.Name))
}
