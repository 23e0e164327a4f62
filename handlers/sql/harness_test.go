package sql

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
	"github.com/etl-craft/etl-craft/warehouses/duckdbiceberg"
	"github.com/etl-craft/etl-craft/warehouses/postgres"
)

// taskParams are a task's parameters.
type taskParams map[string]string

func task(pairs ...string) taskParams {
	p := taskParams{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	return p
}

// with is a copy with more or other parameters.
func (p taskParams) with(pairs ...string) taskParams {
	out := taskParams{}
	for k, v := range p {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// bench runs single attempts against a real warehouse; the Engine DB is a map.
type bench struct {
	t       *testing.T
	env     *handlers.Env
	records map[store.TargetName]store.TargetRecord
	last    int64
	// same replaces what differs from one server to the next, so that golden files can be compared.
	same   func(string) string
	record record
	own    func(string) string
}

// backend opens an empty warehouse of its own for a test.
type backend struct {
	name  string
	open  func(t *testing.T) (w warehouses.Warehouse, same func(string) string, record record)
	own   func(statement string) string // a test's statement in the warehouse's words; nil where they are the same
	runs  func(goldenCase string) bool  // nil where all are run
	alone bool                          // its tests share schemas, so they run one after the other
}

func backends(t *testing.T) []backend {
	all := []backend{{name: "duckdb", open: func(t *testing.T) (warehouses.Warehouse, func(string) string, record) {
		w, err := duckdb.Open(duckdb.Options{Path: filepath.Join(t.TempDir(), "warehouse.duckdb")})
		if err != nil {
			t.Fatal(err)
		}
		return w, func(text string) string { return text }, duckdbLog
	}}}
	all = append(all, snowflakeBackend(t)...)
	servers := os.Getenv("ETL_CRAFT_TEST_POSTGRES")
	if servers == "" {
		if os.Getenv("CI") == "true" {
			t.Error("ETL_CRAFT_TEST_POSTGRES names no PostgreSQL server")
		}
		t.Log("without PostgreSQL: ETL_CRAFT_TEST_POSTGRES names no server")
		return all
	}
	for i, address := range strings.Split(servers, ",") {
		all = append(all, backend{name: fmt.Sprintf("postgres%d", i+1), open: func(t *testing.T) (warehouses.Warehouse, func(string) string, record) {
			return openDatabase(t, address)
		}})
	}
	return all
}

// hasNo leaves out cases that need what a warehouse does not have.
func hasNo(cases ...string) func(string) bool {
	return func(name string) bool { return !slices.Contains(cases, name) }
}

// inCatalog is the Iceberg catalog of the tests, if there is one. They share it, so that they run one after the other.
func inCatalog(t *testing.T) []backend {
	address := os.Getenv("ETL_CRAFT_TEST_ICEBERG")
	if address == "" {
		if os.Getenv("CI") == "true" {
			t.Error("ETL_CRAFT_TEST_ICEBERG names no Iceberg REST catalog")
		}
		t.Log("without Iceberg: ETL_CRAFT_TEST_ICEBERG names no catalog")
		return nil
	}
	options, err := duckdbiceberg.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return []backend{{name: "duckdb_iceberg", alone: true, runs: hasNo("create_table/loses_index", "create_table/refused_view"), open: func(t *testing.T) (warehouses.Warehouse, func(string) string, record) {
		w, err := duckdbiceberg.Open(options)
		if err != nil {
			t.Fatal(err)
		}
		emptySchemas(t, options)
		t.Cleanup(func() { emptySchemas(t, options) })
		return w, func(text string) string { return strings.ReplaceAll(text, "'"+options.ClientID+"'", "'<user>'") }, catalogLog
	}}}
}

// emptySchemas drops the schemas that golden plans name.
func emptySchemas(t *testing.T, o duckdbiceberg.Options) {
	t.Helper()
	ctx := context.Background()
	w, err := duckdbiceberg.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	s, err := w.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	schemas, err := s.Rows(ctx, "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() AND schema_name IN ('raw', 'sales')", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range schemas {
		tables, err := s.Rows(ctx, warehouses.SQL("SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = '"+schema[0]+"'"), 100)
		if err != nil {
			t.Fatal(err)
		}
		statements := []string{"DROP SCHEMA " + schema[0]}
		for _, table := range tables {
			statements = append([]string{"DROP TABLE IF EXISTS " + schema[0] + "." + table[0]}, statements...)
		}
		for _, text := range statements {
			if _, err := s.Exec(ctx, warehouses.SQL(text)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
}

var databases atomic.Int64

// openDatabase makes a database for one test.
func openDatabase(t *testing.T, address string) (warehouses.Warehouse, func(string) string, record) {
	t.Helper()
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("golden_%d_%d", os.Getpid(), databases.Add(1))
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	through := newWire(t, u.Host)
	u.Path, u.Host = "/"+name, through.listener.Addr().String()
	u.RawQuery = "sslmode=disable" // so that the wire can read along
	w, err := postgres.Open(postgres.Options{URL: u.String()})
	if err != nil {
		t.Fatal(err)
	}
	return w, func(text string) string {
		return targetKey.ReplaceAllString(strings.ReplaceAll(text, name, "warehouse"), "pg_advisory_xact_lock(<target key>)")
	}, through.record
}

var targetKey = regexp.MustCompile(`pg_advisory_xact_lock\(-?\d+\)`)

func newBench(t *testing.T, on backend) *bench {
	t.Helper()
	w, same, record := on.open(t)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	facts, err := w.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, records: map[store.TargetName]store.TargetRecord{}, last: 400, same: same, record: record, own: on.own}
	b.env = &handlers.Env{
		ProjectDir: t.TempDir(), Dialect: w.Dialect(), Warehouse: w, CountTarget: true, CreateSchemas: true, TableFormat: w.Dialect().Formats[0], Database: facts.Database,
		TargetRecord: func(_ context.Context, n store.TargetName) (store.TargetRecord, error) { return b.records[n], nil },
	}
	return b
}

func handlerTask(p taskParams, others ...taskParams) *handlers.Task {
	own := store.Task{ID: 11, Code: "load", Handler: "SQL", Params: p}
	all := []store.Task{own}
	for i, o := range others {
		all = append(all, store.Task{ID: int64(20 + i), Code: "other", Handler: "SQL", Params: o})
	}
	return &handlers.Task{Task: own, Pipeline: store.Pipeline{ID: 3, Code: "SALES", RefreshType: "INCREMENTAL"}, Siblings: all}
}

// task is a task in the warehouse's own words.
func (b *bench) task(p taskParams, others ...taskParams) *handlers.Task {
	if b.own == nil {
		return handlerTask(p, others...)
	}
	translated := make([]taskParams, len(others))
	for i, o := range others {
		translated[i] = o.translated(b.own)
	}
	return handlerTask(p.translated(b.own), translated...)
}

func (p taskParams) translated(own func(string) string) taskParams {
	out := taskParams{}
	for k, v := range p {
		out[k] = own(v)
	}
	return out
}

// attempt makes an attempt of a task run of its own; change may alter it before it runs.
func (b *bench) attempt(p taskParams, others ...taskParams) *handlers.Attempt {
	b.last++
	return &handlers.Attempt{
		Task: *b.task(p, others...), PipelineRunID: 97, TaskRunID: b.last, AttemptID: b.last, Number: 1, Token: "9f3a",
		RunDate: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), Instant: time.Now().UTC().Truncate(time.Microsecond),
		Statuses: func(context.Context) (map[string]string, error) {
			return map[string]string{"other": store.Success}, nil
		},
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hold:     func(context.Context, locks.Key, locks.Holder) error { return nil },
		Settle:   func(context.Context, store.Attempt, bool) error { return nil },
		SavePlan: func(*warehouses.Plan, string) error { return nil },
		Report:   func(string) {},
		Advance: func(_ context.Context, p store.Progress) error {
			r := b.records[p.Target]
			r.Known = true
			if p.HashVersion != 0 {
				r.HashVersion, r.CompareColumns = p.HashVersion, p.CompareColumns
			}
			b.records[p.Target] = r
			return nil
		},
	}
}

func (b *bench) run(p taskParams, others ...taskParams) handlers.Result {
	b.t.Helper()
	res, err := Handler{}.Run(context.Background(), b.env, b.attempt(p, others...))
	if err != nil {
		b.t.Fatalf("%s: %v", p["SQL_ACTION"], err)
	}
	return res
}

// exec runs statements of a test's own.
func (b *bench) exec(statements ...string) {
	b.t.Helper()
	s, err := b.env.Warehouse.Session(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, text := range statements {
		if b.own != nil {
			text = b.own(text)
		}
		if _, err := s.Exec(context.Background(), warehouses.SQL(text)); err != nil {
			b.t.Fatalf("%s: %v", text, err)
		}
	}
}

// plan plans as `plan` does: in a transaction that is rolled back.
func (b *bench) plan(p taskParams, others ...taskParams) (*warehouses.Plan, error) {
	b.t.Helper()
	ctx := context.Background()
	s, err := b.env.Warehouse.Session(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Begin(ctx); err != nil {
		b.t.Fatal(err)
	}
	plan, err := Handler{}.Plan(ctx, b.env, b.task(p, others...), handlers.NewDry(s, time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)))
	if rollback := s.Rollback(); rollback != nil {
		b.t.Fatal(rollback)
	}
	return plan, err
}
