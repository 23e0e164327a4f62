package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
	"github.com/etl-craft/etl-craft/warehouses/postgres"
)

// businessColumn is the one column of the SELECT whose tables are planned.
const businessColumn = "id"

// empty is a warehouse without tables in which every SELECT returns businessColumn. Planning asks it for no more.
type empty struct {
	warehouses.Session
	dialect *warehouses.Dialect
}

func (empty) Facts() warehouses.Facts                       { return warehouses.Facts{Database: "dw"} }
func (empty) Confirm(context.Context, warehouses.SQL) error { return nil }
func (e empty) Describe(context.Context, warehouses.SQL) ([]warehouses.Column, error) {
	return []warehouses.Column{{Name: businessColumn, Type: e.dialect.ParseType(string(e.dialect.BigInt))}}, nil
}
func (empty) Table(context.Context, warehouses.QualifiedName) (*warehouses.Table, error) {
	return nil, nil
}
func (empty) SchemaExists(context.Context, warehouses.QualifiedName) (bool, error) { return true, nil }
func (empty) Exec(context.Context, warehouses.SQL) (int64, error)                  { return 0, nil }

// addedColumns are the columns of a table that SETUP_TABLE makes for an action, after the SELECT's own.
func addedColumns(d *warehouses.Dialect, action string) ([]warehouses.Column, error) {
	env := &handlers.Env{Dialect: d, TargetRecord: func(context.Context, store.TargetName) (store.TargetRecord, error) {
		return store.TargetRecord{}, nil
	}}
	task := &handlers.Task{Task: store.Task{Code: "setup", Handler: "SQL", Params: map[string]string{
		"SQL_ACTION": sql.SetupTable, "TARGET_OBJECT": "s.t", "SOURCE_SQL": "SELECT id FROM s.source", "SETUP_FOR": action,
	}}}
	plan, err := sql.Handler{}.Plan(context.Background(), env, task, handlers.NewDry(empty{dialect: d}, time.Time{}))
	if err != nil {
		return nil, err
	}
	if len(plan.Columns) < 2 || plan.Columns[0].Name != businessColumn {
		return nil, errors.New("the plan of " + action + " has not the columns of its SELECT first")
	}
	return plan.Columns[1:], nil
}

// meanings say what a column holds, by its name in lower case.
var meanings = map[string]string{
	"pipeline_id":     "the pipeline that last inserted or changed the row",
	"pipeline_run_id": "its run",
	"task_run_id":     "its task run, shared by all attempts",
	"hash_key":        "MD5 of the compare columns, 32 lower-case hex digits",
	"create_date":     "when the row was inserted",
	"created_by":      "the warehouse user that inserted it",
	"update_date":     "when the row was last changed; set by an insert too",
	"updated_by":      "the warehouse user that last changed it; set by an insert too",
	"delete_flag":     "`Y` after a soft DELETE_ROWS, otherwise `N`",
	"active_flag":     "`Y` for the current version of a key, `N` for closed ones",
	"row_id":          "a number from the table's generator, never used twice while the table lives; no key and no counter",
}

func columnsPage() (string, error) {
	p := newPage("Columns that the engine adds", "A table that the engine creates has the SELECT's columns first, in their order, then these. PIPELINE_ID, PIPELINE_RUN_ID\nand TASK_RUN_ID lead from a row to the run that wrote it. A SELECT that returns one of these names is refused.")

	writers := []string{sql.CreateTable, sql.OverwriteTable, sql.AppendTable, sql.SCD1Merge, sql.SCD2Merge}
	p.section("By action", "SETUP_TABLE gives the table the columns of the action that writes it.")
	var rows [][]string
	for _, action := range writers {
		columns, err := addedColumns(duckdb.Dialect, action)
		if err != nil {
			return "", err
		}
		var names []string
		for _, c := range columns {
			names = append(names, strings.ToUpper(c.Name))
		}
		rows = append(rows, []string{code(action), codes(names)})
	}
	p.table([]string{"Action", "Columns, in this order"}, rows)

	p.section("Meaning and type", "Names are stored in lower case, also where the warehouse keeps the case of names.")
	inDuckDB, err := addedColumns(duckdb.Dialect, sql.SCD2Merge)
	if err != nil {
		return "", err
	}
	inPostgres, err := addedColumns(postgres.Dialect, sql.SCD2Merge)
	if err != nil {
		return "", err
	}
	rows = nil
	for i, c := range inDuckDB {
		meaning, ok := meanings[c.Name]
		if !ok || !slices.ContainsFunc(inPostgres, func(o warehouses.Column) bool { return o.Name == c.Name }) {
			return "", errors.New("column " + c.Name + " has no meaning here, or PostgreSQL lacks it")
		}
		rows = append(rows, []string{code(strings.ToUpper(c.Name)), meaning, code(string(c.Type.SQL)), code(string(inPostgres[i].Type.SQL))})
	}
	p.table([]string{"Column", "Holds", duckdb.Dialect.Product, postgres.Dialect.Product}, rows)
	return p.String(), nil
}
