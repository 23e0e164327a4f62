package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/engine/store/sqlite"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	lockslite "github.com/etl-craft/etl-craft/locks/sqlite"
	"github.com/etl-craft/etl-craft/migrations"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a project with a real Engine DB whose tasks are run by a scripted handler.
type bench struct {
	t        *testing.T
	dir      string
	store    *store.Store
	locker   locks.Locker
	script   *script
	stop     chan struct{}
	observer Observer
	change   func(*config.Config)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "engine.db")
	ctx := context.Background()
	locker, err := lockslite.Open(path + ".locks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	fresh, err := sqlite.OpenToMigrate(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = migrations.Up(ctx, migrations.Target{Store: fresh, Locker: locker, Actor: tester})
	if err := errors.Join(err, fresh.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &bench{t: t, dir: dir, store: s, locker: locker, script: newScript(), stop: make(chan struct{})}
}

var tester = store.Actor{Name: "tester", Kind: "HUMAN"}

// engine is a process of its own as far as others can see.
func (b *bench) engine() *Engine {
	b.t.Helper()
	c := &config.Config{Dir: b.dir, File: filepath.Join(b.dir, "etl-craft.yml"), Orchestration: config.Orchestration{
		Mode: config.Local, MaxParallelTasks: 3, LogDir: filepath.Join(b.dir, "logs"), TargetCount: config.CountExact,
	}}
	if b.change != nil {
		b.change(c)
	}
	e := New(Deps{Config: c, Store: b.store, Locker: b.locker, Dialect: &warehouses.Dialect{Name: "test"}, Handlers: []handlers.Handler{b.script},
		Actor: tester, Stop: b.stop, Observer: b.observer})
	b.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return e
}

// apply makes pipelines/SALES.yml of lines "task: dependencies".
func (b *bench) apply(lines ...string) {
	b.t.Helper()
	b.applyTo("SALES", "", lines...)
}

func (b *bench) applyTo(pipeline, head string, lines ...string) {
	b.t.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "pipeline: %s\nname: %s\nrefresh_type: FULL\n%stasks:\n", pipeline, pipeline, head)
	for _, line := range lines {
		name, ups, _ := strings.Cut(line, ":")
		fmt.Fprintf(&y, "  - task: %s\n    handler: TEST\n    params: { X_TASK: %s }\n", name, name)
		if ups = strings.TrimSpace(ups); ups != "" {
			fmt.Fprintf(&y, "    depends_on: [%s]\n", ups)
		}
	}
	b.write("pipelines/"+pipeline+".yml", y.String())
	if _, err := b.engine().Apply(context.Background(), false); err != nil {
		b.t.Fatalf("%v %+v", err, fault.As(err).Problems)
	}
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(req RunRequest) (*RunDocument, error) {
	b.t.Helper()
	if req.Pipeline == "" {
		req.Pipeline = "SALES"
	}
	return b.engine().Run(context.Background(), req)
}

func (b *bench) mustRun(req RunRequest) *RunDocument {
	b.t.Helper()
	doc, err := b.run(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return doc
}

// value reads one value of the Engine DB as text.
func (b *bench) value(query string, args ...any) string {
	b.t.Helper()
	var v any
	if err := b.store.Backend().Reader.QueryRow(query, args...).Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return fmt.Sprint(v)
}

// states is "a=SUCCESS b=SKIPPED/UPSTREAM_FAILED".
func states(doc *RunDocument) string {
	var parts []string
	for _, t := range doc.Tasks {
		s := t.Task + "=" + t.Status
		if t.SkipReason != nil {
			s += "/" + *t.SkipReason
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

func wantStates(t *testing.T, doc *RunDocument, status, tasks string) {
	t.Helper()
	if doc == nil {
		t.Fatal("there is no run document")
	}
	if doc.Status != status || states(doc) != tasks {
		t.Errorf("run is %s: %s\nwant   %s: %s", doc.Status, states(doc), status, tasks)
	}
}

func wantCode(t *testing.T, err error, code fault.Code, words ...string) {
	t.Helper()
	if !fault.Has(err, code) {
		t.Fatalf("error is %v (%v), want %s", err, fault.As(err), code)
	}
	text := err.Error() + " hint: " + fault.As(err).Hint
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

// script is a handler whose tasks do what the test says.
type script struct {
	mu       sync.Mutex
	do       map[string]func(context.Context, *handlers.Attempt) (handlers.Result, error)
	now, max int
	ran      []string
	started  chan string
}

func newScript() *script {
	return &script{do: map[string]func(context.Context, *handlers.Attempt) (handlers.Result, error){}, started: make(chan string, 1000)}
}

// on says what a task does; a task without a word succeeds and writes 2 rows.
func (s *script) on(task string, do func(context.Context, *handlers.Attempt) (handlers.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do[task] = do
}

func wrote(n int64) handlers.Result {
	c := store.Counts{Written: &n, Insert: &n}
	return handlers.Result{Counts: c, TaskCounts: c}
}

func succeed(n int64) func(context.Context, *handlers.Attempt) (handlers.Result, error) {
	return func(context.Context, *handlers.Attempt) (handlers.Result, error) { return wrote(n), nil }
}

func fails(context.Context, *handlers.Attempt) (handlers.Result, error) {
	err := fault.New(fault.StatementFailed, "division\nby zero").WithHint("divide by something else")
	err.Step, err.SQL = "stage the SELECT", "SELECT 1/0"
	return handlers.Result{}, err
}

// until runs until the channel is closed or the attempt is cancelled.
func until(c <-chan struct{}) func(context.Context, *handlers.Attempt) (handlers.Result, error) {
	return func(ctx context.Context, _ *handlers.Attempt) (handlers.Result, error) {
		select {
		case <-c:
			return wrote(1), nil
		case <-ctx.Done():
			return handlers.Result{}, ctx.Err()
		}
	}
}

func (s *script) Name() string { return "TEST" }

func (s *script) Params() []handlers.Param { return handlers.CommonParams }

func (s *script) Check(_ *handlers.Env, t *handlers.Task) []fault.Problem {
	return handlers.CheckParams(handlers.CommonParams, t.Params, "", nil)
}

func (s *script) ReportsRows(t *handlers.Task) bool { return t.Params["X_ROWS"] != "none" }

func (s *script) Plan(context.Context, *handlers.Env, *handlers.Task, *handlers.Dry) (*warehouses.Plan, error) {
	return &warehouses.Plan{}, nil
}

func (s *script) Run(ctx context.Context, _ *handlers.Env, a *handlers.Attempt) (handlers.Result, error) {
	s.mu.Lock()
	s.now++
	s.max = max(s.max, s.now)
	s.ran = append(s.ran, a.Code)
	do := s.do[a.Code]
	s.mu.Unlock()
	s.started <- a.Code
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if do == nil {
		return wrote(2), nil
	}
	return do(ctx, a)
}

func newHandlers() []handlers.Handler { return []handlers.Handler{newScript()} }
