package engine

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
)

// sqlEngine runs SQL tasks in a DuckDB file of the test.
func (b *bench) sqlEngine() *Engine {
	b.t.Helper()
	path := filepath.Join(b.dir, "warehouse.duckdb")
	c := &config.Config{Dir: b.dir, Warehouse: config.Warehouse{CreateSchemas: true}, Orchestration: config.Orchestration{
		Mode: config.Local, MaxParallelTasks: 2, LogDir: filepath.Join(b.dir, "logs"), TargetCount: config.CountExact,
	}}
	e := New(Deps{
		Config: c, Store: b.store, Locker: b.locker, Dialect: duckdb.Dialect, Handlers: []handlers.Handler{sql.Handler{}}, Actor: tester,
		OpenWarehouse: func(context.Context) (warehouses.Warehouse, error) { return duckdb.Open(duckdb.Options{Path: path}) },
	})
	b.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return e
}

const chain = `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - task: read
    depends_on: [land]
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.b, SOURCE_SQL: SELECT id + 1 AS id FROM s.a }
  - task: land
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.a, SOURCE_SQL: SELECT 1 AS id }
`

func TestPlanOfTasksThatBuildOnEachOther(t *testing.T) {
	b := newBench(t)
	e := b.sqlEngine()
	b.write("pipelines/SALES.yml", chain)
	ctx := context.Background()
	if _, err := e.Apply(ctx, false); err != nil {
		t.Fatal(err)
	}
	for range 2 { // planning leaves nothing behind
		doc, err := e.Plan(ctx, PlanRequest{Pipeline: "SALES"})
		if err != nil || len(doc.Tasks) != 2 || doc.Tasks[0].Task != "land" || doc.Tasks[1].Task != "read" {
			t.Fatalf("%v %+v", err, doc)
		}
		for _, task := range doc.Tasks {
			if !task.Complete || task.BlockedBy != nil || len(task.Steps) == 0 {
				t.Errorf("%s: %+v", task.Task, task)
			}
		}
		if *doc.Tasks[1].Target != "warehouse.s.b" {
			t.Errorf("target: %s", *doc.Tasks[1].Target)
		}
	}
	one, err := e.Plan(ctx, PlanRequest{Pipeline: "SALES", Task: "read"})
	if err != nil || len(one.Tasks) != 1 || !one.Tasks[0].Complete {
		t.Errorf("%v %+v", err, one)
	}
	off, err := e.Plan(ctx, PlanRequest{Pipeline: "SALES", Offline: true})
	if err != nil || len(off.Tasks) != 2 || off.Tasks[0].Complete || *off.Tasks[0].BlockedBy != "offline" {
		t.Errorf("%v %+v", err, off)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "0" {
		t.Errorf("runs: %s", got)
	}
	doc, err := e.Run(ctx, RunRequest{Pipeline: "SALES"})
	if err != nil || doc.Tasks[0].Target == nil || *doc.Tasks[0].RowsWritten != 1 {
		t.Errorf("%v %+v", err, doc)
	}
}

func TestPlanThatCannotBeCompleted(t *testing.T) {
	b := newBench(t)
	e := b.sqlEngine()
	b.write("pipelines/SALES.yml", `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - task: setup
    params: { SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: s.a, SOURCE_SQL: SELECT id FROM elsewhere.t }
  - task: load
    depends_on: [setup]
    params: { SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: s.a, SOURCE_SQL: SELECT 1 AS id }
  - task: other
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.c, SOURCE_SQL: SELECT 1 AS id }
`)
	ctx := context.Background()
	if _, err := e.Apply(ctx, false); err != nil {
		t.Fatal(err)
	}
	doc, err := e.Plan(ctx, PlanRequest{Pipeline: "SALES"})
	wantCode(t, err, fault.StatementFailed)
	for _, task := range doc.Tasks {
		if task.Complete != (task.Task == "other") || (task.Error != nil) != (task.Task == "setup") {
			t.Errorf("%s: %+v", task.Task, task)
		}
		if task.Task == "load" && *task.BlockedBy != "setup" {
			t.Errorf("load is blocked by %s", *task.BlockedBy)
		}
	}

	b.write("pipelines/SALES.yml", `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - task: load
    params: { SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: s.a, SOURCE_SQL: SELECT 1 AS id }
  - task: other
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.c, SOURCE_SQL: SELECT 1 AS id }
`)
	if _, err := e.Apply(ctx, false); err != nil {
		t.Fatal(err)
	}
	doc, err = e.Plan(ctx, PlanRequest{Pipeline: "SALES"})
	wantCode(t, err, fault.TargetMissing)
	if len(doc.Tasks) != 2 || doc.Tasks[0].Error == nil || !doc.Tasks[1].Complete {
		t.Errorf("document: %+v", doc)
	}
}

// TestPlanSeesWhatEarlierTasksChange: a table that exists gets new columns, is replaced, is dropped.
func TestPlanSeesWhatEarlierTasksChange(t *testing.T) {
	b := newBench(t)
	e := b.sqlEngine()
	first := `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - task: setup
    params: { SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: s.kept, SETUP_FOR: SCD1_MERGE, SOURCE_SQL: "SELECT 1 AS id, 'a' AS name" }
  - task: make
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.work, SOURCE_SQL: SELECT 1 AS id }
`
	ctx := context.Background()
	b.write("pipelines/SALES.yml", first)
	if _, err := e.Apply(ctx, false); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(ctx, RunRequest{Pipeline: "SALES"}); err != nil {
		t.Fatal(err)
	}
	b.write("pipelines/SALES.yml", `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - task: evolve
    params: { SQL_ACTION: SCD1_MERGE, TARGET_OBJECT: s.kept, MERGE_KEY: id, MERGE_COMPARE_COLUMNS: name, SCHEMA_EVOLUTION: true, SOURCE_SQL: "SELECT 1 AS id, 'a' AS name, 2.5 AS price" }
  - task: make
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.work, SOURCE_SQL: "SELECT 1 AS id, 2 AS extra" }
  - task: typo
    depends_on: [make]
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.wrong, SOURCE_SQL: SELECT nosuch FROM s.work }
  - task: read
    depends_on: [make, evolve]
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.read, SOURCE_SQL: "SELECT w.extra, k.price, k.row_id AS source_row FROM s.work AS w JOIN s.kept AS k USING (id)" }
  - task: drop
    depends_on: [read, typo]
    params: { SQL_ACTION: DROP_TABLE, TARGET_OBJECT: s.work }
  - task: late
    depends_on: [drop]
    params: { SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: s.late, SOURCE_SQL: SELECT id FROM s.work }
`)
	if _, err := e.Apply(ctx, false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		doc, err := e.Plan(ctx, PlanRequest{Pipeline: "SALES"})
		wantCode(t, err, fault.StatementFailed)
		for _, task := range doc.Tasks {
			if refused := task.Task == "typo" || task.Task == "late"; (task.Error != nil) != refused || task.Complete == refused {
				t.Errorf("%s: %+v", task.Task, task)
			}
		}
	}
	session, err := e.warehouse.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if rows, err := session.Rows(ctx, "SELECT id FROM s.work", 5); err != nil || len(rows) != 1 {
		t.Errorf("after planning its drop the table holds %v, %v", rows, err)
	}
}
