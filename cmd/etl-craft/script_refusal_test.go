package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// refusals prints what the JSON document on stdout refuses, for a comparison with the texts that were reviewed: one line
// with code, place and message, then one with the remedy. The document is that of a run or a plan, of validate, or an
// error. What differs from one test to the next reads WORK, SERVER, DATABASE and 97.
func refusals(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: refusals")
	}
	type task struct {
		Task  string
		Error *struct{ Code, Message, Hint string }
	}
	type problem struct {
		Level, Code, Pipeline, Task, Parameter, Message, Hint, File string
		Line, Column                                                int
	}
	var doc struct {
		Tasks    []task
		Problems []problem
		Error    *struct {
			Code, Message, Hint string
			ExitCode            int `json:"exit_code"`
			Problems            []problem
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	var b strings.Builder
	show := func(code, where, message, hint string) {
		fmt.Fprintf(&b, "%s %s: %s\n", code, where, message)
		if hint == "" {
			hint = "(nothing)"
		}
		fmt.Fprintf(&b, "    hint: %s\n", hint)
	}
	if e := doc.Error; e != nil && len(e.Problems)+len(doc.Tasks) == 0 {
		show(e.Code, fmt.Sprintf("exit %d", e.ExitCode), e.Message, e.Hint)
	} else if e != nil {
		doc.Problems = append(doc.Problems, e.Problems...)
	}
	for _, p := range doc.Problems {
		where := strings.Trim(p.Pipeline+"."+p.Task, ".")
		if p.Parameter != "" {
			where += " " + p.Parameter
		}
		if p.File != "" {
			where = strings.TrimSpace(fmt.Sprintf("%s %s:%d:%d", where, p.File, p.Line, p.Column))
		}
		if p.Level != "FAIL" {
			where = p.Level + " " + where
		}
		show(p.Code, where, p.Message, p.Hint)
	}
	for _, t := range doc.Tasks {
		if t.Error != nil {
			show(t.Error.Code, t.Task, t.Error.Message, t.Error.Hint)
		}
	}
	text := strings.ReplaceAll(b.String(), ts.Getenv("WORK"), "WORK")
	if server, err := url.Parse(ts.Getenv("PG_URL")); err == nil && server.Host != "" {
		text = strings.NewReplacer(server.Host, "SERVER", ts.Getenv("PG_DATABASE"), "DATABASE").Replace(text)
	}
	_, err := io.WriteString(ts.Stdout(), runIDs.ReplaceAllStringFunc(text, func(number string) string {
		if slices.Contains(limits, number) {
			return number
		}
		return "97"
	}))
	ts.Check(err)
}

var (
	runIDs = regexp.MustCompile(`\b[0-9]{8,}\b`)
	limits = []string{"2147483647", "35791394"} // of numbers in files
)

// remembered is what remember saw of a warehouse.
type remembered struct{ driver, where, state string }

// remember keeps the state of a whole warehouse, for unchanged: its tables and views, with columns, comments, indexes,
// owners, grants and every row.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || args[0] != "duckdb" && args[0] != "psql" {
		ts.Fatalf("usage: remember duckdb FILE, remember psql URL")
	}
	seen := ts.Value(remembered{}).(*remembered)
	seen.driver, seen.where = "pgx", args[1]
	if args[0] == "duckdb" {
		seen.driver, seen.where = "duckdb", ts.MkAbs(args[1])
	}
	seen.state = warehouseState(ts, seen)
	if !strings.Contains(seen.state, "\ntable ") {
		ts.Fatalf("there is no table to remember")
	}
}

// unchanged fails when the warehouse is not as it was at remember.
func unchanged(ts *testscript.TestScript, neg bool, args []string) {
	seen := ts.Value(remembered{}).(*remembered)
	if neg || len(args) != 0 || seen.state == "" {
		ts.Fatalf("usage: remember …, then unchanged")
	}
	if diff := cmp.Diff(seen.state, warehouseState(ts, seen)); diff != "" {
		ts.Fatalf("the warehouse has changed:\n%s", diff)
	}
}

// catalogQueries list a warehouse's objects as text; the first one names its tables.
var catalogQueries = map[string][]string{
	"duckdb": {
		`SELECT format('"{}"."{}"', schema_name, table_name) FROM duckdb_tables() WHERE NOT internal ORDER BY 1`,
		`SELECT 'table ' || schema_name || '.' || table_name, comment FROM duckdb_tables() WHERE NOT internal ORDER BY 1`,
		`SELECT 'view ' || schema_name || '.' || view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY 1`,
		`SELECT 'column ' || schema_name || '.' || table_name || '.' || column_name, data_type, is_nullable, column_default, comment FROM duckdb_columns() WHERE NOT internal ORDER BY schema_name, table_name, column_index`,
		`SELECT 'index ' || schema_name || '.' || index_name, sql FROM duckdb_indexes() ORDER BY 1`,
		`SELECT 'schema ' || schema_name FROM duckdb_schemas() WHERE NOT internal ORDER BY 1`,
	},
	"pgx": {
		`SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relnamespace::regnamespace::text !~ '^(pg_|information_schema)' ORDER BY oid::regclass::text`,
		`SELECT 'table ' || oid::regclass, relkind, relowner::regrole, relacl, obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace::regnamespace::text !~ '^(pg_|information_schema)' ORDER BY 1`,
		`SELECT 'view ' || schemaname || '.' || viewname, definition FROM pg_views WHERE schemaname !~ '^(pg_|information_schema)' ORDER BY 1`,
		`SELECT 'column ' || attrelid::regclass || '.' || attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, col_description(attrelid, attnum) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE attnum > 0 AND NOT attisdropped AND relnamespace::regnamespace::text !~ '^(pg_|information_schema)' ORDER BY attrelid::regclass::text, attnum`,
		`SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE schemaname !~ '^(pg_|information_schema)' ORDER BY 1`,
		`SELECT 'constraint ' || conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace::regnamespace::text !~ '^(pg_|information_schema)' ORDER BY 1`,
		`SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1`,
	},
}

func warehouseState(ts *testscript.TestScript, of *remembered) string {
	queries := catalogQueries[of.driver]
	tables, err := rows(of.driver, of.where, queries[0])
	ts.Check(err)
	var b strings.Builder
	for _, query := range queries[1:] {
		text, err := rows(of.driver, of.where, query)
		ts.Check(err)
		b.WriteString("\n" + text)
	}
	for table := range strings.Lines(tables) {
		table = strings.TrimSpace(table)
		text, err := rows(of.driver, of.where, "SELECT CAST(whole_row AS VARCHAR) FROM "+table+" AS whole_row ORDER BY 1")
		ts.Check(err)
		b.WriteString("\nrows of " + table + "\n" + text)
	}
	return b.String()
}
