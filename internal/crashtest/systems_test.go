package crashtest

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// system is a pair of Engine DB and warehouse.
type system struct {
	name              string
	engine, warehouse string // sqlite or postgres, duckdb or postgres
}

var systems = []system{
	{"sqlite and duckdb", "sqlite", "duckdb"},
	{"postgres", "postgres", "postgres"}, // both in one database
	{"postgres and duckdb", "postgres", "duckdb"},
	{"sqlite and postgres", "sqlite", "postgres"},
}

func (on system) mixed() bool { return on.usesPostgres() && on.engine != on.warehouse }

func (on system) usesPostgres() bool { return on.engine == "postgres" || on.warehouse == "postgres" }

func all(system) bool { return true }

func enginePostgres(on system) bool { return on.engine == "postgres" }

func warehousePostgres(on system) bool { return on.warehouse == "postgres" }

func engineSQLite(on system) bool { return on.engine == "sqlite" }

func warehouseDuckDB(on system) bool { return on.warehouse == "duckdb" }

func both(a, b func(system) bool) func(system) bool {
	return func(on system) bool { return a(on) && b(on) }
}

// onSystems runs a test on the systems that are meant.
func onSystems(t *testing.T, meant func(system) bool, test func(*testing.T, system)) {
	for _, on := range systems {
		if !meant(on) {
			continue
		}
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			if on.usesPostgres() {
				servers(t)
			}
			test(t, on)
		})
	}
}

// onScenarios runs a test for those scenarios that are meant, on the systems that are meant.
func onScenarios(t *testing.T, meant func(system) bool, tried func(scenario) bool, test func(*testing.T, system, scenario)) {
	onSystems(t, meant, func(t *testing.T, on system) {
		for _, s := range scenarios {
			if !tried(s) {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				test(t, on, s)
			})
		}
	})
}

// servers are the PostgreSQL servers of the tests, the oldest version first. Without any, the test is skipped on a laptop
// and fails in CI.
func servers(t *testing.T) []string {
	t.Helper()
	named := os.Getenv("ETL_CRAFT_TEST_POSTGRES")
	if named != "" {
		return strings.Split(named, ",")
	}
	const missing = "ETL_CRAFT_TEST_POSTGRES names no PostgreSQL server"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing + ", and CI=true")
	}
	t.Skip(missing + `; eval "$(make -s servers)" starts some`)
	return nil
}

// server is the newest server where everything is in PostgreSQL, else the oldest, so that both are tested.
func (on system) server(t *testing.T) string {
	t.Helper()
	list := servers(t)
	if on.mixed() {
		return list[0]
	}
	return list[len(list)-1]
}

// address is how the test itself reaches a database.
type address struct{ driver, at, options string }

func (a address) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(a.driver, a.at+a.options)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// use opens the database for a while: a DuckDB file can be open in one process only.
func (a address) use(t *testing.T, f func(database)) {
	t.Helper()
	db := a.open(t)
	defer func() { _ = db.Close() }()
	f(database{db})
}

func (a address) exec(t *testing.T, statements string) {
	t.Helper()
	a.use(t, func(db database) {
		t.Helper()
		for statement := range strings.SplitSeq(statements, ";") {
			db.exec(t, statement)
		}
	})
}

func (a address) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	a.use(t, func(db database) { n = db.count(t, query, args...) })
	return n
}

// database is an open one.
type database struct{ *sql.DB }

func (db database) exec(t *testing.T, statement string, args ...any) (rows int64) {
	t.Helper()
	result, err := db.Exec(statement, args...)
	if err == nil {
		rows, err = result.RowsAffected()
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return rows
}

// texts returns the one text column of a query.
func (db database) texts(t *testing.T, query string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
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

func (db database) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// template is a migrated Engine DB and a warehouse with the rows that scenarios read. Every project gets a copy of both.
type template struct {
	once     sync.Once
	dir      string
	database string // in PostgreSQL; "" without
	drop     func() error
}

var (
	templates = func() map[string]*template {
		m := map[string]*template{}
		for _, on := range systems {
			m[on.name] = &template{}
		}
		return m
	}()
	named atomic.Int64 // databases
)

const sourceRows = `CREATE SCHEMA raw; CREATE SCHEMA t;
	CREATE TABLE raw.rows AS SELECT CAST(i AS INTEGER) AS id, 'row ' || i AS name, DATE '2026-01-01' + CAST(i AS INTEGER) AS day FROM generate_series(0, 9) AS r(i);
	CREATE TABLE raw.gone AS SELECT CAST(i AS INTEGER) AS id FROM generate_series(2, 4) AS r(i)`

func (on system) template(t *testing.T) *template {
	t.Helper()
	m := templates[on.name]
	m.once.Do(func() {
		dir, err := os.MkdirTemp(scratch, "template")
		if err != nil {
			t.Fatal(err)
		}
		p := project{dir: dir, on: on}
		if on.usesPostgres() {
			m.database, m.drop = createDatabase(t, on.server(t), "template1")
		}
		p.engine, p.warehouse = on.addresses(t, dir, m.database)
		p.warehouse.exec(t, sourceRows)
		p.configure(t, settings{})
		p.etl(t, "migrate")
		m.dir = dir
	})
	if m.dir == "" {
		t.Fatal("the databases could not be prepared; another test says why")
	}
	return m
}

func dropTemplates() {
	for _, m := range templates {
		if m.drop == nil {
			continue
		}
		if err := m.drop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// copies gives a project databases of its own.
func (on system) copies(t *testing.T, dir string) (engine, warehouse address) {
	t.Helper()
	m := on.template(t)
	for _, name := range []string{"engine.db", "warehouse.duckdb"} {
		b, err := os.ReadFile(filepath.Join(m.dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	database := ""
	if m.database != "" {
		var drop func() error
		database, drop = createDatabase(t, on.server(t), m.database)
		t.Cleanup(func() {
			if err := drop(); err != nil {
				t.Error(err)
			}
		})
	}
	return on.addresses(t, dir, database)
}

func (on system) addresses(t *testing.T, dir, database string) (engine, warehouse address) {
	t.Helper()
	engine, warehouse = address{driver: "sqlite", at: filepath.Join(dir, "engine.db")}, address{driver: "duckdb", at: filepath.Join(dir, "warehouse.duckdb")}
	if database == "" {
		return engine, warehouse
	}
	u, err := url.Parse(on.server(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	if on.engine == "postgres" {
		engine = address{driver: "pgx", at: u.String(), options: "?search_path=etl_craft"}
	}
	if on.warehouse == "postgres" {
		warehouse = address{driver: "pgx", at: u.String()}
	}
	return engine, warehouse
}

func createDatabase(t *testing.T, server, template string) (name string, drop func() error) {
	t.Helper()
	name = fmt.Sprintf("crash_%d_%d", os.Getpid(), named.Add(1))
	if err := administer(server, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	return name, func() error { return administer(server, "DROP DATABASE "+name+" WITH (FORCE)") }
}

func administer(server, statement string) error {
	db, err := sql.Open("pgx", server)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}
