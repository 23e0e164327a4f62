package crashtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/trino"
)

// far is a schema of a test's own in a warehouse of which there is one server for all tests. The Engine DB beside it is a
// SQLite file.
type far struct {
	warehouse warehouses.Warehouse
	settings  string // of etl-craft.yml
	schema    string
}

// farServer is how to reach such a warehouse.
type farServer struct {
	name, variable string
	// open reads the variable.
	open func(address string) (w warehouses.Warehouse, settings string, err error)
}

var farServers = []farServer{
	{"trino", "ETL_CRAFT_TEST_TRINO", func(address string) (warehouses.Warehouse, string, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, "", err
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return nil, "", err
		}
		o := trino.Options{Host: u.Hostname(), Port: port, User: u.User.Username(), Catalog: u.Query().Get("catalog")}
		w, err := trino.Open(o)
		return w, fmt.Sprintf("type: trino, host: %s, port: %d, catalog: %s, user: %s", o.Host, o.Port, o.Catalog, o.User), err
	}},
}

// onFar runs a test on each of these warehouses that is there; a missing one fails in CI.
func onFar(t *testing.T, test func(*testing.T, farServer)) {
	for _, server := range farServers {
		t.Run(server.name, func(t *testing.T) {
			if os.Getenv(server.variable) == "" {
				if os.Getenv("CI") == "true" {
					t.Fatalf("%s names no server, and CI=true", server.variable)
				}
				t.Skipf("%s names no server", server.variable)
			}
			t.Parallel()
			test(t, server)
		})
	}
}

// schema makes one with the rows that scenarios read; it goes with the test.
func (server farServer) schema(t *testing.T) *far {
	t.Helper()
	w, settings, err := server.open(os.Getenv(server.variable))
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
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
	dir := t.TempDir()
	p := project{dir: dir, on: system{name: server.name, engine: "sqlite", warehouse: server.name}, far: f}
	p.engine = address{driver: "sqlite", at: dir + "/engine.db"}
	p.configure(t, settings{})
	here := strings.NewReplacer("t.target", f.schema+".target", "t.after", f.schema+".after", "raw.rows", f.schema+".source", "raw.gone", f.schema+".gone")
	for code, tasks := range map[string]string{"PREPARE": s.prepare, "ACT": s.task + `
  - task: after
    depends_on: [{task: act, on: ` + s.dependency() + `}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}`} {
		if tasks != "" {
			p.write(t, "pipelines/"+code+".yml", "pipeline: "+code+"\nname: "+strings.ToLower(code)+"\nrefresh_type: INCREMENTAL\ntasks:"+here.Replace(tasks)+"\n")
		}
	}
	p.etl(t, "migrate")
	p.etl(t, "apply")
	if s.prepare != "" {
		p.etl(t, "run", "--pipeline", "PREPARE")
	}
	if s.source != "" {
		f.exec(t, "DROP TABLE "+f.schema+".source")
		f.fill(t, 13, "!")
	}
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
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				want, points := calmly(t, server.name+"/"+s.name, func() project { return server.project(t, s) })
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
