// Package crashtest kills the built program at every point of every action, lets the same command go on, and compares
// target, counts and decisions with those of a run that nothing disturbed.
package crashtest

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "crashtest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "etl-craft")
	build := exec.Command("go", "build", "-tags", "faultpoints", "-o", program, "../../cmd/etl-craft")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// scenario is one action on a prepared target; after it, a task that runs only when the action wrote rows.
type scenario struct {
	name    string
	prepare string // tasks that make the target and its first rows, in a pipeline of their own
	source  string // SQL that changes what the action will read
	task    string // the task under test, called act
}

func prepared(action, params string) string {
	setup := `
  - task: setup
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.target, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"}`
	return setup + `
  - task: fill
    depends_on: [setup]
    params: {SQL_ACTION: ` + action + `, TARGET_OBJECT: t.target, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"` + params + `}`
}

func acting(action, params string) string {
	return `
  - task: act
    params: {SQL_ACTION: ` + action + `, TARGET_OBJECT: t.target` + params + `}`
}

const (
	rows  = `, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"`
	wider = `, SCHEMA_EVOLUTION: true, SOURCE_SQL: "SELECT id, name, day, id * 10 AS tens FROM raw.rows"`
	merge = `, MERGE_KEY: id, MERGE_COMPARE_COLUMNS: name|day`
	gone  = `, MERGE_KEY: id, SOURCE_SQL: "SELECT id FROM raw.gone"`

	changes = `UPDATE raw.rows SET name = name || '!' WHERE id % 3 = 0; INSERT INTO raw.rows SELECT i, 'new ' || i, NULL FROM generate_series(10, 12) AS r(i)`
)

var scenarios = []scenario{
	{"create", "", "", acting("CREATE_TABLE", rows)},
	{"replace", prepared("APPEND_TABLE", ""), changes, acting("CREATE_TABLE", rows)},
	{"setup", "", "", acting("SETUP_TABLE", rows+", SETUP_FOR: SCD2_MERGE")},
	{"overwrite", prepared("OVERWRITE_TABLE", ""), changes, acting("OVERWRITE_TABLE", wider)},
	{"append", prepared("APPEND_TABLE", ""), changes, acting("APPEND_TABLE", rows)},
	{"scd1", prepared("SCD1_MERGE", merge), changes, acting("SCD1_MERGE", merge+wider)},
	{"scd2", prepared("SCD2_MERGE", merge), changes, acting("SCD2_MERGE", merge+wider)},
	{"scd2 unchanged", prepared("SCD2_MERGE", merge), "", acting("SCD2_MERGE", merge+rows)},
	{"soft delete", prepared("SCD2_MERGE", merge), "", acting("DELETE_ROWS", gone)},
	{"hard delete", prepared("SCD1_MERGE", merge), "", acting("DELETE_ROWS", gone+", HARD_DELETE: true")},
}

// system is a pair of Engine DB and warehouse.
type system struct {
	name string
	// place gives a new project its databases; it returns the profile and how the test itself reaches the warehouse.
	place func(t *testing.T, dir string) (profile, driver, address string)
}

var sqliteAndDuckDB = system{"sqlite and duckdb", func(_ *testing.T, dir string) (string, string, string) {
	return `
    engine: {type: sqlite, path: engine.db}
    warehouse: {type: duckdb, path: warehouse.duckdb, create_schemas: true}`, "duckdb", filepath.Join(dir, "warehouse.duckdb")
}}

// postgresOnly keeps both in one database of its own.
func postgresOnly(server string) system {
	return system{"postgres", func(t *testing.T, _ string) (string, string, string) {
		admin, err := sql.Open("pgx", server)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("crash_%d_%d", os.Getpid(), databases.Add(1))
		if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
				t.Error(err)
			}
			_ = admin.Close()
		})
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + name
		return fmt.Sprintf(`
    engine: {type: postgres, url: %[1]q}
    warehouse: {type: postgres, url: %[1]q, create_schemas: true}`, u.String()), "pgx", u.String()
	}}
}

var databases atomic.Int64

// project is a project of which the target is prepared and the run under test is next.
type project struct {
	dir             string
	driver, address string
}

func newProject(t *testing.T, on system, s scenario) project {
	t.Helper()
	p := project{dir: t.TempDir()}
	profile, driver, address := on.place(t, p.dir)
	p.driver, p.address = driver, address
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("etl-craft.yml", "orchestration: {max_parallel_tasks: 1}\nprofiles:\n  test:"+profile+"\n")
	write("pipelines/ACT.yml", "pipeline: ACT\nname: act\nrefresh_type: INCREMENTAL\ntasks:"+s.task+`
  - task: after
    depends_on: [{task: act, on: `+dependency(s)+`}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}
`)
	if s.prepare != "" {
		write("pipelines/PREPARE.yml", "pipeline: PREPARE\nname: prepare\nrefresh_type: FULL\ntasks:"+s.prepare+"\n")
	}
	p.exec(t, `CREATE SCHEMA raw; CREATE SCHEMA t;
		CREATE TABLE raw.rows AS SELECT CAST(i AS INTEGER) AS id, 'row ' || i AS name, DATE '2026-01-01' + CAST(i AS INTEGER) AS day FROM generate_series(0, 9) AS r(i);
		CREATE TABLE raw.gone AS SELECT CAST(i AS INTEGER) AS id FROM generate_series(2, 4) AS r(i)`)
	p.etl(t, "migrate")
	p.etl(t, "apply")
	if s.prepare != "" {
		p.etl(t, "run", "--pipeline", "PREPARE")
	}
	if s.source != "" {
		p.exec(t, s.source)
	}
	return p
}

// dependency is HAS_DATA where the action reports rows.
func dependency(s scenario) string {
	if s.name == "setup" {
		return "SUCCESS"
	}
	return "HAS_DATA"
}

// TestKilledAnywhere is the crash matrix.
func TestKilledAnywhere(t *testing.T) {
	systems := []system{sqliteAndDuckDB}
	if servers := os.Getenv("ETL_CRAFT_TEST_POSTGRES"); servers != "" {
		all := strings.Split(servers, ",")
		systems = append(systems, postgresOnly(all[len(all)-1]))
	} else if os.Getenv("CI") == "true" {
		t.Error("ETL_CRAFT_TEST_POSTGRES names no PostgreSQL server")
	}
	for _, on := range systems {
		for _, s := range scenarios {
			t.Run(on.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				calm := newProject(t, on, s)
				trace := filepath.Join(t.TempDir(), "points")
				calm.etl(t, append(act, "trace="+trace)...)
				want := calm.observe(t)
				points := passed(t, trace)
				if len(points) < 10 {
					t.Fatalf("only %d points were passed: %v", len(points), points)
				}
				for _, point := range points {
					t.Run(strings.ReplaceAll(point, " ", "_"), func(t *testing.T) {
						p := newProject(t, on, s)
						out, err := p.command("kill="+point, act...).CombinedOutput()
						var exit *exec.ExitError
						if !errors.As(err, &exit) || exit.ExitCode() != -1 {
							t.Fatalf("the program was to be killed, but: %v\n%s", err, out)
						}
						p.etl(t, act...)
						if diff := cmp.Diff(want, p.observe(t)); diff != "" {
							t.Errorf("- undisturbed, + after going on:\n%s", diff)
						}
					})
				}
			})
		}
	}
}

var act = []string{"run", "--pipeline", "ACT", "--run-date", "2026-09-01"}

// passed reads the points of a trace; once the run has ended there is nothing left to go on with.
func passed(t *testing.T, trace string) []string {
	t.Helper()
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for _, p := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if !strings.HasPrefix(p, "after run end") {
			points = append(points, p)
		}
	}
	return points
}

func (p project) command(fault string, args ...string) *exec.Cmd {
	c := exec.Command(program)
	c.Dir = p.dir
	c.Env = append(os.Environ(), "ETL_CRAFT_FAULT="+fault)
	for _, a := range args {
		if trace, ok := strings.CutPrefix(a, "trace="); ok {
			c.Env = append(c.Env, "ETL_CRAFT_FAULT_TRACE="+trace)
			continue
		}
		c.Args = append(c.Args, a)
	}
	return c
}

func (p project) etl(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	c := p.command("", args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("etl-craft %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func (p project) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.driver, p.address)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func (p project) exec(t *testing.T, statements string) {
	t.Helper()
	db := p.open(t)
	defer func() { _ = db.Close() }()
	for statement := range strings.SplitSeq(statements, ";") {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// observation is what must not depend on a crash: rows without instants and ROW_ID, and what was recorded of the tasks.
type observation struct {
	Rows   []string
	Tables []string
	Status string
	Tasks  []map[string]any
}

func (p project) observe(t *testing.T) observation {
	t.Helper()
	var o observation
	db := p.open(t)
	defer func() { _ = db.Close() }()
	columns := texts(t, db, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 't' AND table_name = 'target' AND column_name NOT IN ('row_id', 'create_date', 'update_date') ORDER BY ordinal_position`)
	for i, c := range columns {
		if strings.HasSuffix(c, "_run_id") { // ids differ, their order does not
			columns[i] = "dense_rank() OVER (ORDER BY " + c + ")"
		}
		columns[i] = "coalesce(CAST(" + columns[i] + " AS VARCHAR), 'NULL')"
	}
	o.Rows = texts(t, db, "SELECT "+strings.Join(columns, " || ' | ' || ")+" FROM t.target ORDER BY 1")
	o.Tables = texts(t, db, `SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
		WHERE table_schema = 't' ORDER BY table_name, ordinal_position`)

	var doc struct {
		Status string           `json:"status"`
		Tasks  []map[string]any `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(p.etl(t, "status", "--pipeline", "ACT", "-o", "json", "--run-id", p.onlyRun(t))), &doc); err != nil {
		t.Fatal(err)
	}
	o.Status = doc.Status
	for _, task := range doc.Tasks {
		for _, varies := range []string{"attempts", "task_run_id", "started_at", "ended_at", "duration_seconds", "target"} {
			delete(task, varies)
		}
		o.Tasks = append(o.Tasks, task)
	}
	return o
}

func (p project) onlyRun(t *testing.T) string {
	t.Helper()
	var doc struct {
		Runs []struct {
			ID int64 `json:"pipeline_run_id"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(p.etl(t, "history", "--pipeline", "ACT", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Runs) != 1 {
		t.Fatalf("%d runs, want 1", len(doc.Runs))
	}
	return fmt.Sprint(doc.Runs[0].ID)
}

func texts(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
