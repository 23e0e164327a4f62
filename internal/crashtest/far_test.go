package crashtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/testservers"
	"github.com/etl-craft/etl-craft/warehouses"
)

// farPatience is for statements that take seconds each, of several tests at once.
const farPatience = 10 * time.Minute

// far is a schema of a test's own in a warehouse of which there is one server for all tests. The Engine DB beside it is a
// SQLite file.
type far struct {
	warehouse warehouses.Warehouse
	settings  string // of etl-craft.yml
	schema    string
}

type farServer struct {
	testservers.Server
	scenarios []string // that the crash matrix takes without -whole
}

var whole = flag.Bool("whole", false, "every scenario of the crash matrix, also on warehouses where it takes minutes")

// changing are the scenarios that change a target that is there.
var changing = []string{"replace", "overwrite", "append", "scd1", "scd2", "soft delete", "hard delete"}

var farServers = []farServer{{testservers.Trino, changing}, {testservers.Databricks, nil}, {testservers.Iceberg, changing}}

// onFar runs a test on each of these warehouses that is there; a missing one fails in CI.
func onFar(t *testing.T, test func(*testing.T, farServer)) {
	for _, server := range farServers {
		t.Run(server.Name, func(t *testing.T) {
			if os.Getenv(server.Variable) == "" {
				if os.Getenv("CI") == "true" {
					t.Fatalf("%s names no server, and CI=true", server.Variable)
				}
				t.Skipf("%s names no server", server.Variable)
			}
			t.Parallel()
			test(t, server)
		})
	}
}

// schema makes one with the rows that scenarios read; it goes with the test.
func (server farServer) schema(t *testing.T) *far {
	t.Helper()
	w, settings, err := server.Open(os.Getenv(server.Variable))
	if err != nil {
		t.Fatal(err)
	}
	f := &far{w, settings, fmt.Sprintf("crash_%x_%d", time.Now().Unix(), named.Add(1))}
	t.Cleanup(func() {
		f.drop(t)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	f.exec(t, "CREATE SCHEMA "+f.schema)
	f.fill(t, 10, "")
	f.exec(t, "CREATE TABLE "+f.schema+".gone AS SELECT 2 AS id UNION ALL SELECT 3 UNION ALL SELECT 4")
	return f
}

// fill makes the table that scenarios read: changed rows end with a mark.
func (f *far) fill(t *testing.T, n int, mark string) {
	t.Helper()
	var selects []string
	for i := range n {
		name := fmt.Sprintf("row %d", i)
		if i%3 == 0 {
			name += mark
		}
		selects = append(selects, fmt.Sprintf("SELECT %d AS id, '%s' AS name, DATE '2026-01-%02d' AS day", i, name, i+1))
	}
	f.exec(t, "CREATE TABLE "+f.schema+".source AS "+strings.Join(selects, " UNION ALL "))
}

func (f *far) use(t *testing.T, do func(ctx context.Context, s warehouses.Session)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), farPatience)
	defer cancel()
	s, err := f.warehouse.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	do(ctx, s)
}

func (f *far) exec(t *testing.T, statement string) {
	t.Helper()
	f.use(t, func(ctx context.Context, s warehouses.Session) {
		if _, err := s.Exec(ctx, warehouses.SQL(statement)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	})
}

// drop drops the schema table by table, because not every warehouse cascades.
func (f *far) drop(t *testing.T) {
	t.Helper()
	f.use(t, func(ctx context.Context, s warehouses.Session) {
		tables := append(f.scratch(ctx, t, s), "target", "after", "source", "gone")
		for _, table := range tables {
			if _, err := s.Exec(ctx, warehouses.SQL("DROP TABLE IF EXISTS "+f.schema+"."+table)); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Exec(ctx, warehouses.SQL("DROP SCHEMA "+f.schema)); err != nil {
			t.Error(err)
		}
	})
}

// scratch are the tables that the program should have removed.
func (f *far) scratch(ctx context.Context, t *testing.T, s warehouses.Session) (tables []string) {
	t.Helper()
	d := f.warehouse.Dialect()
	found, err := s.Rows(ctx, d.Render("left_tables", warehouses.LeftNames{Database: d.Text(s.Facts().Database), Schema: d.Text(f.schema)}), 1000)
	if err != nil {
		t.Error(err)
	}
	for _, r := range found {
		tables = append(tables, r[0])
	}
	return tables
}

func (f *far) table(ctx context.Context, t *testing.T, s warehouses.Session, name string) *warehouses.Table {
	t.Helper()
	table, err := s.Table(ctx, warehouses.QualifiedName{Database: s.Facts().Database, Schema: f.schema, Table: name})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// tables lists the tables with their columns, scratch tables too.
func (f *far) tables(t *testing.T) (all []string) {
	t.Helper()
	f.use(t, func(ctx context.Context, s warehouses.Session) {
		for _, name := range append(f.scratch(ctx, t, s), "target", "after") {
			table := f.table(ctx, t, s, name)
			if table == nil {
				continue
			}
			for _, c := range table.Columns {
				all = append(all, name+"."+c.Name+" "+string(c.Type.SQL))
			}
		}
	})
	return all
}

// rows is what the target holds, nothing when it is missing. Ids of runs differ, their order does not.
func (f *far) rows(t *testing.T) (rows []string) {
	t.Helper()
	f.use(t, func(ctx context.Context, s warehouses.Session) {
		table := f.table(ctx, t, s, "target")
		if table == nil {
			return
		}
		var columns []string
		for _, c := range table.Columns {
			if !slices.Contains([]string{"row_id", "create_date", "update_date"}, c.Name) {
				columns = append(columns, c.Name)
			}
		}
		found, err := s.Rows(ctx, warehouses.SQL("SELECT "+strings.Join(columns, ", ")+" FROM "+f.schema+".target"), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range columns {
			if strings.HasSuffix(c, "_run_id") {
				rank(found, i)
			}
		}
		for _, r := range found {
			rows = append(rows, strings.Join(r, " | "))
		}
	})
	slices.Sort(rows)
	return rows
}

// rank puts an id's place among the ids of its column in its stead.
func rank(rows [][]string, column int) {
	var ids []string
	for _, r := range rows {
		if !slices.Contains(ids, r[column]) {
			ids = append(ids, r[column])
		}
	}
	slices.Sort(ids)
	for _, r := range rows {
		r[column] = strconv.Itoa(slices.Index(ids, r[column]) + 1)
	}
}

// project is one of which the target is prepared, and the pipeline ACT is next.
func (server farServer) project(t *testing.T, s scenario) project {
	t.Helper()
	f := server.schema(t)
	p := server.pipelines(t, f, map[string]string{"PREPARE": s.prepare, "ACT": s.task + `
  - task: after
    depends_on: [{task: act, on: ` + s.dependency() + `}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}`})
	if s.prepare != "" {
		p.etl(t, "run", "--pipeline", "PREPARE")
	}
	if s.source != "" {
		f.exec(t, "DROP TABLE "+f.schema+".source")
		f.fill(t, 13, "!")
	}
	return p
}

// pipelines makes a project of these pipelines, whose tables are in the schema.
func (server farServer) pipelines(t *testing.T, f *far, pipelines map[string]string) project {
	t.Helper()
	dir := t.TempDir()
	p := project{dir: dir, on: system{name: server.Name, engine: "sqlite", warehouse: server.Name}, far: f}
	p.engine = address{driver: "sqlite", at: dir + "/engine.db"}
	p.configure(t, settings{})
	here := strings.NewReplacer("t.target", f.schema+".target", "t.after", f.schema+".after", "raw.rows", f.schema+".source", "raw.gone", f.schema+".gone")
	for code, tasks := range pipelines {
		if tasks != "" {
			p.write(t, "pipelines/"+code+".yml", "pipeline: "+code+"\nname: "+strings.ToLower(code)+"\nrefresh_type: INCREMENTAL\ntasks:"+here.Replace(tasks)+"\n")
		}
	}
	p.etl(t, "migrate")
	p.etl(t, "apply")
	return p
}

// aroundTheCommit keeps the points at which what is left differs: after the first step, before the planned counts are
// durable, between that and the statement that commits, after it, and around the record of the outcome.
func aroundTheCommit(points []string) []string {
	var kept []string
	points = slices.DeleteFunc(points, func(point string) bool { return !strings.HasSuffix(point, "#1") }) // of the task under test
	for i, point := range points {
		recorded := func(j int) bool { return j >= 0 && j < len(points) && strings.HasPrefix(points[j], "phase recorded") }
		switch {
		case point == "after step 1#1", recorded(i + 1), recorded(i), recorded(i - 1), recorded(i - 2), recorded(i - 3),
			strings.Contains(point, "outcome#1"), strings.HasPrefix(point, "before commit"), strings.HasPrefix(point, "after commit"):
			kept = append(kept, point)
		}
	}
	return kept
}

// TestKilledAnywhereFar is TestKilledAnywhere on warehouses with one server for all, at fewer points.
func TestKilledAnywhereFar(t *testing.T) {
	t.Parallel()
	onFar(t, func(t *testing.T, server farServer) {
		for _, s := range scenarios {
			if !*whole && !slices.Contains(server.scenarios, s.name) {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				want, points := calmly(t, server.Name+"/"+s.name, func() project { return server.project(t, s) })
				for _, point := range aroundTheCommit(points) {
					t.Run(strings.ReplaceAll(point, " ", "_"), func(t *testing.T) {
						p := server.project(t, s)
						killed := p.start(t, "kill="+point, act...)
						if code := killed.wait(); code != -1 {
							t.Fatalf("the program was to be killed, but its exit code is %d: %s", code, killed)
						}
						same(t, "after going on", want, p.finish(t, act...))
					})
				}
			})
		}
	})
}

// TestTwoProcessesAndAnOutsideWriter lets two processes merge and append to the same targets while a session that is not
// etl-craft's inserts and updates rows of the merged one. Nothing is doubled, and nothing is lost.
func TestTwoProcessesAndAnOutsideWriter(t *testing.T) {
	t.Parallel()
	onFar(t, func(t *testing.T, server farServer) {
		if server.scenarios == nil && !*whole {
			t.Skip("with -whole: a statement takes a second there")
		}
		const rounds = 3
		tasks := func(by string) string {
			return `
  - task: merge
    params: {RETRIES: 20, RETRY_BACKOFF: 1, RETRY_DELAY_SECONDS: 1, SQL_ACTION: SCD2_MERGE, TARGET_OBJECT: t.target, SOURCE_SQL: "SELECT id, concat('` + by + `', CAST($$task_run_id AS VARCHAR(20))) AS name, day FROM raw.rows", TASK_RUN_ID_SUBSTITUTION: true` + merge + `}
  - task: append
    params: {RETRIES: 20, RETRY_BACKOFF: 1, RETRY_DELAY_SECONDS: 1, SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"}`
		}
		p := server.pipelines(t, server.schema(t), map[string]string{"A": tasks("A"), "B": tasks("B"), "PREPARE": prepared("SCD2_MERGE", merge) + `
  - task: after
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.after, SETUP_FOR: APPEND_TABLE, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"}`})
		p.etl(t, "run", "--pipeline", "PREPARE")

		outside := p.far.writeOutside(t)
		for range rounds {
			a, b := p.start(t, "", "run", "--pipeline", "A"), p.start(t, "", "run", "--pipeline", "B")
			a.succeed()
			b.succeed()
		}
		inserted, last := outside()

		p.far.use(t, func(ctx context.Context, s warehouses.Session) {
			count := func(what string, want int, from string) {
				t.Helper()
				n, err := s.Int(ctx, warehouses.SQL(strings.ReplaceAll("SELECT count(*) FROM "+from, "t.", p.far.schema+".")))
				if err != nil || n != int64(want) {
					t.Errorf("%s: %d, want %d, %v", what, n, want, err)
				}
			}
			count("rows that were appended", 2*rounds*10, "t.after")
			count("versions of the keys", 10+2*rounds*10, "t.target WHERE id < 10")
			count("active versions", 10, "t.target WHERE id < 10 AND active_flag = 'Y'")
			count("keys with an active version", 10, "(SELECT DISTINCT id FROM t.target WHERE id < 10 AND active_flag = 'Y') AS k")
			count("rows from outside", inserted, "t.target WHERE id >= 1000")
			count("the row that was updated last", 1, fmt.Sprintf("t.target WHERE id = 1000 AND name = 'outside %d'", last))
		})
		t.Logf("%d rows were inserted from outside, and %d updates came through", inserted, last)
	})
}

// writeOutside inserts rows into the target, and updates the first of them, until the returned function is called, which
// says how many rows there are and what the last update was. The pauses grow, because a merge that takes longer than one
// never gets through, however slow the machine is.
func (f *far) writeOutside(t *testing.T) func() (inserted, last int) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan [2]int)
	go func() {
		var inserted, last int
		defer func() { done <- [2]int{inserted, last} }()
		for pause := time.Second; ; pause += pause / 2 {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			statement := fmt.Sprintf("INSERT INTO %s.target (id, name) VALUES (%d, 'outside 0')", f.schema, 1000+inserted)
			update := inserted > last+1
			if update {
				statement = fmt.Sprintf("UPDATE %s.target SET name = 'outside %d' WHERE id = 1000", f.schema, last+1)
			}
			f.use(t, func(ctx context.Context, s warehouses.Session) {
				switch _, err := s.Exec(ctx, warehouses.SQL(statement)); {
				case fault.Has(err, fault.WriteConflict): // somebody was faster
				case err != nil:
					t.Errorf("%s: %v", statement, err)
				case update:
					last++
				default:
					inserted++
				}
			})
		}
	}()
	finish := sync.OnceValue(func() [2]int {
		close(stop)
		return <-done
	})
	t.Cleanup(func() { finish() }) // also when the test fails meanwhile
	return func() (int, int) {
		counts := finish()
		return counts[0], counts[1]
	}
}
