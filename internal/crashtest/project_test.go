package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// project is a project on disk with databases of its own.
type project struct {
	dir               string
	on                system
	engine, warehouse address
	far               *far // the warehouse, where it is neither DuckDB nor PostgreSQL
}

// settings are what tests vary in etl-craft.yml.
type settings struct {
	orchestration string // "max_parallel_tasks: 1" when empty
	warehouse     string // another address of the PostgreSQL warehouse
}

func (p project) configure(t *testing.T, s settings) {
	t.Helper()
	if s.orchestration == "" {
		s.orchestration = "max_parallel_tasks: 1"
	}
	engine, warehouse := "type: sqlite, path: engine.db", "type: duckdb, path: warehouse.duckdb"
	if p.on.engine == "postgres" {
		engine = fmt.Sprintf("type: postgres, url: %q", p.engine.at)
	}
	if p.on.warehouse == "postgres" {
		if s.warehouse == "" {
			s.warehouse = p.warehouse.at
		}
		warehouse = fmt.Sprintf("type: postgres, url: %q", s.warehouse)
	}
	if p.far != nil {
		warehouse = p.far.settings
	}
	p.write(t, "etl-craft.yml", fmt.Sprintf("orchestration: {%s}\nprofiles:\n  test:\n    engine: {%s}\n    warehouse: {%s}\n", s.orchestration, engine, warehouse))
}

func (p project) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeProject makes a project whose pipelines are applied.
func makeProject(t *testing.T, on system, pipelines map[string]string) project {
	t.Helper()
	p := project{dir: t.TempDir(), on: on}
	p.engine, p.warehouse = on.copies(t, p.dir)
	p.configure(t, settings{})
	for code, tasks := range pipelines {
		p.write(t, "pipelines/"+code+".yml", "pipeline: "+code+"\nname: "+strings.ToLower(code)+"\nrefresh_type: INCREMENTAL\ntasks:"+tasks+"\n")
	}
	p.etl(t, "apply")
	return p
}

// newProject is a project of which the target is prepared, and the pipeline ACT is next.
func newProject(t *testing.T, on system, s scenario) project {
	t.Helper()
	pipelines := map[string]string{"ACT": s.task + `
  - task: after
    depends_on: [{task: act, on: ` + s.dependency() + `}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}`}
	if s.prepare != "" {
		pipelines["PREPARE"] = s.prepare
	}
	p := makeProject(t, on, pipelines)
	if s.prepare != "" {
		p.etl(t, "run", "--pipeline", "PREPARE")
	}
	if s.source != "" {
		p.warehouse.exec(t, s.source)
	}
	return p
}

// act is the command under test.
var (
	act     = []string{"run", "--pipeline", "ACT", "--run-date", "2026-09-01"}
	actJSON = append(act[:len(act):len(act)], "-o", "json")
)

// observation is what nothing may change: the target without instants and ROW_ID, the tables there are, and what is
// recorded of the only run of ACT.
type observation struct {
	Rows   []string
	Tables []string
	Runs   int
	Open   int // attempts and runs that have not ended
	Status string
	Tasks  []map[string]any
}

// finish runs a command on ACT to its successful end, and observes.
func (p project) finish(t *testing.T, args ...string) observation {
	t.Helper()
	return p.observe(t, p.etl(t, append(args[:len(args):len(args)], "-o", "json")...))
}

// observe takes the document that the last command on ACT printed.
func (p project) observe(t *testing.T, document string) observation {
	t.Helper()
	doc := parse(t, document)
	o := observation{Status: doc.Status}
	if p.far != nil {
		o.Rows, o.Tables = p.far.rows(t), p.far.tables(t)
	} else {
		p.warehouse.use(t, func(db database) {
			o.Rows = target(t, db)
			o.Tables = db.texts(t, `SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
			WHERE table_schema = 't' ORDER BY table_name, ordinal_position`)
		})
	}
	p.engine.use(t, func(db database) {
		o.Runs = db.count(t, `SELECT count(*) FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID
			WHERE p.PIPELINE_CODE = 'ACT'`)
		o.Open = db.count(t, `SELECT (SELECT count(*) FROM AUD_TASK_ATTEMPTS WHERE ENDED_AT IS NULL)
			+ (SELECT count(*) FROM AUD_PIPELINES_RUN_LOG WHERE END_DATE IS NULL OR OWNER_ID IS NOT NULL)`)
	})
	for _, task := range doc.Tasks {
		for _, varies := range []string{"attempts", "task_run_id", "started_at", "ended_at", "duration_seconds", "target"} {
			delete(task, varies)
		}
		o.Tasks = append(o.Tasks, task)
	}
	return o
}

// rows is what the target holds.
func (p project) rows(t *testing.T) (rows []string) {
	t.Helper()
	p.warehouse.use(t, func(db database) { rows = target(t, db) })
	return rows
}

// target is what the target holds, nothing when it is missing. Ids of runs differ, their order does not.
func target(t *testing.T, db database) []string {
	t.Helper()
	columns := db.texts(t, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 't' AND table_name = 'target' AND column_name NOT IN ('row_id', 'create_date', 'update_date') ORDER BY ordinal_position`)
	if len(columns) == 0 {
		return nil
	}
	for i, c := range columns {
		if strings.HasSuffix(c, "_run_id") {
			columns[i] = "dense_rank() OVER (ORDER BY " + c + ")"
		}
		columns[i] = "coalesce(CAST(" + columns[i] + " AS VARCHAR), 'NULL')"
	}
	return db.texts(t, "SELECT "+strings.Join(columns, " || ' | ' || ")+" FROM t.target ORDER BY 1")
}

// runDocument is what the tests read of `run -o json`.
type runDocument struct {
	Pipeline string           `json:"pipeline"`
	RunID    int64            `json:"pipeline_run_id"`
	Status   string           `json:"status"`
	Tasks    []map[string]any `json:"tasks"`
}

func parse(t *testing.T, document string) runDocument {
	t.Helper()
	var doc runDocument
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	return doc
}

// attempts are those of the task act, as "status, error code, whether a later attempt found it committed".
func (p project) attempts(t *testing.T) (attempts []string) {
	t.Helper()
	p.engine.use(t, func(db database) {
		attempts = db.texts(t, `
		SELECT a.STATUS || ' ' || COALESCE(a.ERROR_CODE, '-') || ' ' || COALESCE(a.COMMITTED, '-')
		FROM AUD_TASK_ATTEMPTS a
		JOIN AUD_TASK_RUN_LOG l ON l.TASK_RUN_ID = a.TASK_RUN_ID
		JOIN CFG_TASKS t ON t.TASK_ID = l.TASK_ID
		WHERE t.TASK_CODE = 'act'
		ORDER BY a.ATTEMPT_ID`)
	})
	return attempts
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: - expected, + found:\n%s", what, diff)
	}
}

// calm is a run that nothing disturbed.
type calm struct {
	once   sync.Once
	want   observation
	points []string // that it passed, without the end of the run, after which there is nothing to go on with, and without
	// the commits in the Engine DB, which have tests of their own
}

var calms sync.Map // by system and scenario

func undisturbed(t *testing.T, on system, s scenario) (observation, []string) {
	t.Helper()
	return calmly(t, on.name+"/"+s.name, func() project { return newProject(t, on, s) })
}

func calmly(t *testing.T, name string, prepare func() project) (observation, []string) {
	t.Helper()
	found, _ := calms.LoadOrStore(name, &calm{})
	c := found.(*calm)
	c.once.Do(func() {
		p := prepare()
		trace := filepath.Join(t.TempDir(), "points")
		c.want = p.finish(t, append(act[:len(act):len(act)], "trace="+trace)...)
		b, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			if !strings.HasPrefix(point, "after run end") && !strings.HasPrefix(point, "committed: ") {
				c.points = append(c.points, point)
			}
		}
	})
	if len(c.points) < 10 {
		t.Fatalf("the undisturbed run passed %d points only: %v", len(c.points), c.points)
	}
	return c.want, c.points
}
