package sql

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
)

// params is a task's parameters, as pairs.
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
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	w, err := duckdb.Open(duckdb.Options{Path: filepath.Join(dir, "warehouse.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, records: map[store.TargetName]store.TargetRecord{}, last: 400}
	b.env = &handlers.Env{
		ProjectDir: dir, Dialect: w.Dialect(), Warehouse: w, CountTarget: true, CreateSchemas: true, TableFormat: warehouses.FormatNative, Database: "warehouse",
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

// attempt makes an attempt of a task run of its own; change may alter it before it runs.
func (b *bench) attempt(p taskParams, others ...taskParams) *handlers.Attempt {
	b.last++
	return &handlers.Attempt{
		Task: *handlerTask(p, others...), PipelineRunID: 97, TaskRunID: b.last, AttemptID: b.last, Number: 1, Token: "9f3a",
		RunDate: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), Instant: time.Now().UTC().Truncate(time.Microsecond),
		SiblingStatus: map[string]string{"other": store.Success},
		Log:           slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hold:          func(context.Context, locks.Key, locks.Holder) error { return nil },
		Settle:        func(context.Context, store.Attempt, bool) error { return nil },
		SavePlan:      func(*warehouses.Plan, string) error { return nil },
		Report:        func(string) {},
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
	plan, err := Handler{}.Plan(ctx, b.env, handlerTask(p, others...), time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), s)
	if rollback := s.Rollback(); rollback != nil {
		b.t.Fatal(rollback)
	}
	return plan, err
}
