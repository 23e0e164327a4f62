// Package crashtest kills the built program at every point of every action, lets the same command go on, and compares
// target, counts and decisions with those of a run that nothing disturbed.
package crashtest

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/google/go-cmp/cmp"
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

func act(action, params string) string {
	return `
  - task: act
    params: {SQL_ACTION: ` + action + `, TARGET_OBJECT: t.target` + params + `}`
}

const (
	rows  = `, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"`
	wider = `, SCHEMA_EVOLUTION: true, SOURCE_SQL: "SELECT id, name, day, id * 10 AS tens FROM raw.rows"`
	merge = `, MERGE_KEY: id, MERGE_COMPARE_COLUMNS: name|day`
	gone  = `, MERGE_KEY: id, SOURCE_SQL: "SELECT id FROM raw.gone"`

	changes = `UPDATE raw.rows SET name = name || '!' WHERE id % 3 = 0; INSERT INTO raw.rows SELECT i, 'new ' || i, NULL FROM range(10, 13) r(i)`
)

var scenarios = []scenario{
	{"create", "", "", act("CREATE_TABLE", rows)},
	{"replace", prepared("APPEND_TABLE", ""), changes, act("CREATE_TABLE", rows)},
	{"setup", "", "", act("SETUP_TABLE", rows+", SETUP_FOR: SCD2_MERGE")},
	{"overwrite", prepared("OVERWRITE_TABLE", ""), changes, act("OVERWRITE_TABLE", wider)},
	{"append", prepared("APPEND_TABLE", ""), changes, act("APPEND_TABLE", rows)},
	{"scd1", prepared("SCD1_MERGE", merge), changes, act("SCD1_MERGE", merge+wider)},
	{"scd2", prepared("SCD2_MERGE", merge), changes, act("SCD2_MERGE", merge+wider)},
	{"scd2 unchanged", prepared("SCD2_MERGE", merge), "", act("SCD2_MERGE", merge+rows)},
	{"soft delete", prepared("SCD2_MERGE", merge), "", act("DELETE_ROWS", gone)},
	{"hard delete", prepared("SCD1_MERGE", merge), "", act("DELETE_ROWS", gone+", HARD_DELETE: true")},
}

const config = `
orchestration: {max_parallel_tasks: 1}
profiles:
  test:
    engine: {type: sqlite, path: engine.db}
    warehouse: {type: duckdb, path: warehouse.duckdb, create_schemas: true}
`

// project writes a project, runs what prepares the target, and leaves everything ready for the run under test.
func project(t *testing.T, s scenario) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("etl-craft.yml", config)
	write("pipelines/ACT.yml", "pipeline: ACT\nname: act\nrefresh_type: INCREMENTAL\ntasks:"+s.task+`
  - task: after
    depends_on: [{task: act, on: `+dependency(s)+`}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}
`)
	if s.prepare != "" {
		write("pipelines/PREPARE.yml", "pipeline: PREPARE\nname: prepare\nrefresh_type: FULL\ntasks:"+s.prepare+"\n")
	}
	warehouse(t, dir, `CREATE SCHEMA raw; CREATE SCHEMA t;
		CREATE TABLE raw.rows AS SELECT i::INTEGER AS id, 'row ' || i AS name, DATE '2026-01-01' + i::INTEGER AS day FROM range(10) r(i);
		CREATE TABLE raw.gone AS SELECT i::INTEGER AS id FROM range(2, 5) r(i)`)
	etl(t, dir, "", "migrate")
	etl(t, dir, "", "apply")
	if s.prepare != "" {
		etl(t, dir, "", "run", "--pipeline", "PREPARE")
	}
	if s.source != "" {
		warehouse(t, dir, s.source)
	}
	return dir
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
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir := project(t, s)
			files := remember(t, dir)
			trace := filepath.Join(t.TempDir(), "points")
			etl(t, dir, "", "run", "--pipeline", "ACT", "--run-date", "2026-09-01", "trace="+trace)
			want := observe(t, dir)
			points := passed(t, trace)
			if len(points) < 10 {
				t.Fatalf("only %d points were passed: %v", len(points), points)
			}
			for _, p := range points {
				files.restore(t, dir)
				out, err := command(dir, "kill="+p, "run", "--pipeline", "ACT", "--run-date", "2026-09-01").CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != -1 {
					t.Fatalf("at %s the program was to be killed, but: %v\n%s", p, err, out)
				}
				etl(t, dir, "", "run", "--pipeline", "ACT", "--run-date", "2026-09-01")
				if diff := cmp.Diff(want, observe(t, dir)); diff != "" {
					t.Errorf("killed at %s (- undisturbed, + after going on):\n%s", p, diff)
				}
			}
		})
	}
}

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

func command(dir, fault string, args ...string) *exec.Cmd {
	c := exec.Command(program)
	c.Dir = dir
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

func etl(t *testing.T, dir, fault string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	c := command(dir, fault, args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("etl-craft %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// snapshot is the text of every file of a project.
type snapshot map[string][]byte

func remember(t *testing.T, dir string) snapshot {
	t.Helper()
	files := snapshot{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// restore writes the files in place, because a DuckDB file is known by its inode.
func (files snapshot) restore(t *testing.T, dir string) {
	t.Helper()
	for path := range remember(t, dir) {
		if _, ok := files[path]; !ok {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, text := range files {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func warehouse(t *testing.T, dir, statements string) {
	t.Helper()
	db, err := sql.Open("duckdb", filepath.Join(dir, "warehouse.duckdb"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

// observation is what must not depend on a crash: rows without instants and ROW_ID, and what was recorded of the tasks.
type observation struct {
	Rows   []string
	Tables []string
	Status string
	Tasks  []map[string]any
}

func observe(t *testing.T, dir string) observation {
	t.Helper()
	var o observation
	db, err := sql.Open("duckdb", filepath.Join(dir, "warehouse.duckdb"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	o.Rows = texts(t, db, `SELECT CAST(r AS VARCHAR) FROM (
		SELECT COLUMNS(c -> c NOT IN ('row_id', 'create_date', 'update_date')) FROM t.target) AS r ORDER BY 1`)
	o.Tables = texts(t, db, `SELECT table_name || ' ' || string_agg(column_name || ' ' || data_type, ', ' ORDER BY column_index)
		FROM duckdb_columns() WHERE schema_name = 't' GROUP BY table_name ORDER BY 1`)

	var doc struct {
		Status string           `json:"status"`
		Tasks  []map[string]any `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(etl(t, dir, "", "status", "--pipeline", "ACT", "-o", "json", "--run-id", newest(t, dir))), &doc); err != nil {
		t.Fatal(err)
	}
	o.Status = doc.Status
	for _, task := range doc.Tasks {
		for _, varies := range []string{"attempts", "started_at", "ended_at", "duration_seconds"} {
			delete(task, varies)
		}
		o.Tasks = append(o.Tasks, task)
	}
	return o
}

func newest(t *testing.T, dir string) string {
	t.Helper()
	var doc struct {
		Runs []struct {
			ID int64 `json:"pipeline_run_id"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(etl(t, dir, "", "history", "--pipeline", "ACT", "-o", "json")), &doc); err != nil {
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
