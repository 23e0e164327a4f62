// Package storetest is the suite that every Engine DB passes, and opens throw-away ones for the tests of other packages.
package storetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/engine/store/postgres"
	"github.com/etl-craft/etl-craft/engine/store/sqlite"
	"github.com/etl-craft/etl-craft/locks"
	lockspg "github.com/etl-craft/etl-craft/locks/postgres"
	lockslite "github.com/etl-craft/etl-craft/locks/sqlite"
	"github.com/etl-craft/etl-craft/migrations"
)

const (
	// DSNs is the variable that names PostgreSQL servers for tests: URLs of superusers, separated by commas.
	DSNs = "ETL_CRAFT_TEST_POSTGRES"
	// Poolers is the variable that names a transaction pooler in front of each server of DSNs, in the same order.
	Poolers = "ETL_CRAFT_TEST_PGBOUNCER"
)

// Engine is an Engine DB of one test. Its methods open it anew each time; what they return is closed with the test.
type Engine struct {
	t      testing.TB
	path   string
	config postgres.Config
}

// Each runs f on SQLite and on every server of DSNs, itself and through its pooler, as parallel subtests; without servers
// or poolers those are skipped, visibly.
func Each(t *testing.T, f func(*testing.T, *Engine)) {
	for name, open := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t))
		})
	}
}

// kinds are the ways to open an empty Engine DB, by name.
func kinds() map[string]func(testing.TB) *Engine {
	all := map[string]func(testing.TB) *Engine{"sqlite": SQLite}
	servers, poolers := fromEnvironment(DSNs), fromEnvironment(Poolers)
	for i, server := range servers {
		all[fmt.Sprintf("postgres%d", i+1)] = func(t testing.TB) *Engine { return Postgres(t, server) }
	}
	for i, pooler := range poolers[:min(len(poolers), len(servers))] {
		all[fmt.Sprintf("pooler%d", i+1)] = func(t testing.TB) *Engine { return Pooled(t, servers[i], pooler) }
	}
	if len(servers) == 0 {
		all["postgres"] = skipped(DSNs)
	}
	if len(servers) == 0 || len(poolers) == 0 {
		all["pooler"] = skipped(Poolers)
	}
	return all
}

func fromEnvironment(name string) []string {
	if os.Getenv(name) == "" {
		return nil
	}
	return strings.Split(os.Getenv(name), ",")
}

func skipped(variable string) func(testing.TB) *Engine {
	return func(t testing.TB) *Engine {
		t.Skip("$" + variable + " names no servers")
		return nil
	}
}

// SQLite is an Engine DB without any table, in a folder of the test.
func SQLite(t testing.TB) *Engine {
	return &Engine{t: t, path: filepath.Join(t.TempDir(), "engine.db")}
}

var schemas atomic.Int64

// Postgres is an Engine DB without any table, in a schema of its own that does not exist yet and is dropped after the test.
func Postgres(t testing.TB, dsn string) *Engine { return inSchema(t, postgres.Config{Address: dsn}) }

// Pooled is Postgres through a transaction pooler; locks and migrations go to the server itself.
func Pooled(t testing.TB, dsn, pooler string) *Engine {
	return inSchema(t, postgres.Config{Address: pooler, DirectAddress: dsn})
}

func inSchema(t testing.TB, config postgres.Config) *Engine {
	schema := fmt.Sprintf("Store_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	config.Schema = schema
	e := &Engine{t: t, config: config}
	t.Cleanup(func() {
		config, err := e.config.Direct() // a pooler may have no place left for a moment
		if err != nil {
			t.Error(err)
			return
		}
		db := stdlib.OpenDB(*config)
		defer func() { _ = db.Close() }()
		if _, err := db.Exec(`DROP SCHEMA IF EXISTS "` + schema + `" CASCADE`); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Address is what At, in another process, finds this Engine DB by.
func (e *Engine) Address() string {
	if e.path != "" {
		return e.path
	}
	address, err := json.Marshal(e.config)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(address)
}

// At is an Engine DB that another process made, and removes.
func At(t testing.TB, address string) *Engine {
	e := &Engine{t: t}
	if json.Unmarshal([]byte(address), &e.config) != nil {
		e.path = address
	}
	return e
}

// Path is the file of a SQLite Engine DB, "" for PostgreSQL.
func (e *Engine) Path() string { return e.path }

// Store opens the Engine DB.
func (e *Engine) Store() *store.Store {
	e.t.Helper()
	s, err := e.TryStore()
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// TryStore opens the Engine DB, with the error that a user would see.
func (e *Engine) TryStore() (*store.Store, error) {
	if e.path != "" {
		return e.closing(sqlite.Open(context.Background(), e.path))
	}
	return e.closing(postgres.Open(context.Background(), e.config))
}

// StoreToMigrate opens the Engine DB whatever is in it.
func (e *Engine) StoreToMigrate() *store.Store {
	e.t.Helper()
	open := func() (*store.Store, error) { return sqlite.OpenToMigrate(context.Background(), e.path) }
	if e.path == "" {
		open = func() (*store.Store, error) { return postgres.OpenToMigrate(context.Background(), e.config) }
	}
	s, err := e.closing(open())
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *Engine) closing(s *store.Store, err error) (*store.Store, error) {
	if err == nil {
		e.t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// Locker opens the locks of the Engine DB.
func (e *Engine) Locker() locks.Locker {
	e.t.Helper()
	l, err := e.locker()
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (e *Engine) locker() (locks.Locker, error) {
	if e.path != "" {
		return lockslite.Open(e.path + ".locks")
	}
	direct, err := e.config.Direct()
	if err != nil {
		return nil, err
	}
	return lockspg.Open(context.Background(), direct, e.config.SchemaName())
}

// Migrated makes the tables and returns e.
func (e *Engine) Migrated() *Engine {
	e.t.Helper()
	_, err := migrations.Up(context.Background(), migrations.Target{Store: e.StoreToMigrate(), Locker: e.Locker(), Actor: Tester})
	if err != nil {
		e.t.Fatal(err)
	}
	return e
}

// Tester is the actor of tests.
var Tester = store.Actor{Name: "tester", Kind: "HUMAN"}

// Exec runs a statement, in which {{schema}} is the schema, as somebody would by hand.
func Exec(t testing.TB, s *store.Store, statement string, args ...any) {
	t.Helper()
	if _, err := TryExec(s, statement, args...); err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
}

// TryExec is Exec with the error.
func TryExec(s *store.Store, statement string, args ...any) (sql.Result, error) {
	return s.Backend().Writer.Exec(in(s, statement), args...)
}

// Value reads one value of one row as text, "" for NULL.
func Value(t testing.TB, s *store.Store, query string, args ...any) string {
	t.Helper()
	var v sql.NullString
	if err := s.Backend().Reader.QueryRow(in(s, query), args...).Scan(&v); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	return v.String
}

func in(s *store.Store, statement string) string {
	return strings.ReplaceAll(statement, "{{schema}}", s.Backend().Schema)
}
