package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/sqlscan"
)

// Trace implements handlers.Tracer.
func (Handler) Trace(env *handlers.Env, task *handlers.Task) handlers.Trace {
	var trace handlers.Trace
	unknown := func(format string, args ...any) {
		trace.Unknown = append(trace.Unknown, fmt.Sprintf(format, args...))
	}
	switch task.Params["SQL_ACTION"] {
	case SetupTable:
		trace.Effect = handlers.MakesEmpty
	case DropTable:
		trace.Effect = handlers.Drops
	}
	if target, ok := targetTable(env, task.Params["TARGET_OBJECT"]); ok {
		trace.Writes = &target
	} else {
		unknown("TARGET_OBJECT is %q, which names no table", task.Params["TARGET_OBJECT"])
	}
	if trace.Effect == handlers.Drops {
		return trace
	}
	sp := &spec{Action: task.Params["SQL_ACTION"]}
	problems := sp.readSelect(env, task.Params)
	if sp.Select == nil {
		if len(problems) == 0 {
			problems = []fault.Problem{fail(fault.ParameterInvalid, "SOURCE_SQL", "", "the SELECT is empty")}
		}
		for _, p := range problems {
			unknown("%s", p.Message)
		}
		return trace
	}
	tables, others := sp.Select.Reads()
	for _, t := range tables {
		parts := slices.DeleteFunc([]sqlscan.Ident{t.Database, t.Schema, t.Name}, func(n sqlscan.Ident) bool { return n == sqlscan.Ident{} })
		table, ok := env.Table(parts)
		switch {
		case !ok:
			unknown("%s names %s without a schema at %d:%d", sp.Label, t.Name.Name, t.Line, t.Column)
		case !slices.Contains(trace.Reads, table):
			trace.Reads = append(trace.Reads, table)
		}
	}
	for _, o := range others {
		unknown("%s reads from %s at %d:%d", sp.Label, o.What, o.Line, o.Column)
	}
	return trace
}

// targetTable is the table that TARGET_OBJECT means.
func targetTable(env *handlers.Env, text string) (handlers.TableName, bool) {
	if _, ok := targetName(env.Dialect, text); !ok {
		return handlers.TableName{}, false
	}
	var parts []sqlscan.Ident
	for _, p := range strings.Split(strings.TrimSpace(text), ".") {
		parts = append(parts, sqlscan.Ident{Name: p})
	}
	return env.Table(parts)
}
