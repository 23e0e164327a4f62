package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestRunSucceeds(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: a, b")
	doc := b.mustRun(RunRequest{RunDate: "2026-09-01"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS")
	if doc.RunDate != "2026-09-01" || doc.Trigger != store.TriggerManual || !strings.HasPrefix(doc.RunKey, "manual:") || doc.EndedAt == nil {
		t.Errorf("document: %+v", doc)
	}
	task := doc.Tasks[1]
	if *task.RowsWritten != 2 || task.Attempts != 1 || task.Error != nil || task.DurationSeconds == nil || task.StartedAt == nil {
		t.Errorf("task: %+v", task)
	}
	if got := b.value("SELECT COMMAND || ' ' || OUTCOME || ' ' || EXIT_CODE FROM AUD_ACTIONS ORDER BY ACTION_ID DESC LIMIT 1"); got != "run DONE 0" {
		t.Errorf("recorded command: %s", got)
	}
	second := b.mustRun(RunRequest{})
	if second.PipelineRunID == doc.PipelineRunID || second.PreviousRunID != nil {
		t.Errorf("a second call did not start a run: %+v", second)
	}
}

func TestFailureSkipsOnlyDependents(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: b", "d:", "alert: {task: a, on: FAILURE}", "end: {task: c, on: ALWAYS}", "calm: {task: d, on: FAILURE}")
	b.script.on("a", fails)
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed, "1 of 7", "(a)", fmt.Sprint("--run-id ", doc.PipelineRunID))
	wantStates(t, doc, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=SKIPPED/UPSTREAM_FAILED d=SUCCESS alert=SUCCESS end=SUCCESS calm=SKIPPED/CONDITION_UNMET")
	e := doc.Tasks[0].Error
	if e == nil || e.Code != "STATEMENT_FAILED" || e.Message != "stage the SELECT failed: division by zero" || *e.Step != "stage the SELECT" || *e.Hint == "" {
		t.Errorf("error: %+v", e)
	}
	log, err := os.ReadFile(filepath.Join(b.dir, "logs", "SALES", fmt.Sprint("run-", doc.PipelineRunID), "a.attempt-1.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SELECT 1/0", "STATEMENT_FAILED", fmt.Sprintf("[task_run_id=%d pipeline=SALES task=a attempt=1 at=", doc.Tasks[0].TaskRunID)} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestPanicFailsOnlyItsTask(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b:")
	b.script.on("a", func(context.Context, *handlers.Attempt) (handlers.Result, error) { panic("oh") })
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=FAILED b=SUCCESS")
	if doc.Tasks[0].Error.Code != string(fault.Internal) {
		t.Errorf("error: %+v", doc.Tasks[0].Error)
	}
}

func TestReopenedRunKeepsSuccesses(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: b", "d:")
	b.script.on("b", fails)
	failed, _ := b.run(RunRequest{RunDate: "2026-09-01"})
	b.script.on("b", succeed(1))
	b.script.ran = nil
	doc := b.mustRun(RunRequest{RunID: failed.PipelineRunID})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS d=SUCCESS")
	if got := strings.Join(b.script.ran, " "); got != "b c" {
		t.Errorf("ran %s", got)
	}
	if doc.Tasks[1].Attempts != 2 || doc.Tasks[0].Attempts != 1 || doc.Tasks[1].TaskRunID != failed.Tasks[1].TaskRunID {
		t.Errorf("tasks: %+v", doc.Tasks)
	}

	b.script.ran = nil
	for _, req := range []RunRequest{{RunID: doc.PipelineRunID}, {RunKey: doc.RunKey}} {
		again := b.mustRun(req)
		if again.PipelineRunID != doc.PipelineRunID || len(b.script.ran) > 0 {
			t.Errorf("a run in SUCCESS was repeated: %v", b.script.ran)
		}
	}
	_, err := b.run(RunRequest{RunID: doc.PipelineRunID, RunDate: "2026-09-02"})
	wantCode(t, err, fault.RunEnded, "2026-09-01")
	_, err = b.run(RunRequest{RunID: 1})
	wantCode(t, err, fault.RunNotFound)
	_, err = b.run(RunRequest{Pipeline: "SALE"})
	wantCode(t, err, fault.PipelineNotFound, "SALES")
}

func TestFailedRunIsNotPickedUp(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	b.script.on("a", fails)
	failed, _ := b.run(RunRequest{})
	b.script.on("a", succeed(1))
	doc := b.mustRun(RunRequest{})
	if doc.PipelineRunID == failed.PipelineRunID {
		t.Error("the failed run was continued")
	}
}

// interrupt starts a run, waits until the tasks run, and interrupts it the way that how says.
func (b *bench) interrupt(req RunRequest, how func(cancel func()), tasks int) error {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	e := b.engine()
	req.Pipeline = "SALES"
	go func() {
		_, err := e.Run(ctx, req)
		done <- err
	}()
	for range tasks {
		<-b.script.started
	}
	how(cancel)
	err := <-done
	b.stop = make(chan struct{})
	return err
}

func TestDrainAndResume(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	release := make(chan struct{})
	b.script.on("a", until(release))
	err := b.interrupt(RunRequest{}, func(func()) { close(b.stop); close(release) }, 1)
	wantCode(t, err, fault.Interrupted)
	doc, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.InProgress, "a=SUCCESS b=PENDING")
	resumed := b.mustRun(RunRequest{})
	wantStates(t, resumed, store.Success, "a=SUCCESS b=SUCCESS")
	if resumed.PipelineRunID != doc.PipelineRunID || resumed.Tasks[0].Attempts != 1 {
		t.Errorf("resumed: %+v", resumed)
	}
}

func TestDrainLetsAFinishedRunEnd(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	release := make(chan struct{})
	b.script.on("a", until(release))
	if err := b.interrupt(RunRequest{}, func(func()) { close(b.stop); close(release) }, 1); err != nil {
		t.Fatal(err)
	}
}

func TestKillAndResume(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c:")
	b.script.on("a", until(nil))
	b.script.on("c", until(nil))
	err := b.interrupt(RunRequest{}, func(cancel func()) { cancel() }, 2)
	wantCode(t, err, fault.Interrupted)
	if got := b.value("SELECT COUNT(*) FROM AUD_TASK_ATTEMPTS WHERE STATUS = 'CANCELLED'"); got != "2" {
		t.Errorf("cancelled attempts: %s", got)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG WHERE STATUS = 'IN_PROGRESS' AND OWNER_ID IS NULL"); got != "1" {
		t.Errorf("released runs: %s", got)
	}
	b.script.on("a", succeed(1))
	b.script.on("c", succeed(1))
	doc := b.mustRun(RunRequest{})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS")
	if doc.Tasks[0].Attempts != 2 {
		t.Errorf("attempts: %d", doc.Tasks[0].Attempts)
	}
}

func TestEarlierDateIsFinishedFirst(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	b.script.on("a", until(nil))
	wantCode(t, b.interrupt(RunRequest{RunDate: "2026-09-01"}, func(cancel func()) { cancel() }, 1), fault.Interrupted)
	b.script.on("a", succeed(1))
	_, err := b.run(RunRequest{RunDate: "2026-09-02"})
	wantCode(t, err, fault.RunActive, "2026-09-01")
	_, err = b.run(RunRequest{RunKey: "other"})
	wantCode(t, err, fault.RunActive, "other", "--run-id")
	doc := b.mustRun(RunRequest{})
	if doc.PreviousRunID == nil || *doc.PreviousRunID == doc.PipelineRunID || doc.RunDate == "2026-09-01" {
		t.Errorf("document: %+v", doc)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG WHERE STATUS = 'SUCCESS'"); got != "2" {
		t.Errorf("successful runs: %s", got)
	}
}

func TestNamedKeyStarts(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	doc := b.mustRun(RunRequest{RunKey: "k1"})
	if doc.RunKey != "k1" {
		t.Errorf("key: %s", doc.RunKey)
	}
	if again := b.mustRun(RunRequest{RunKey: "k1"}); again.PipelineRunID != doc.PipelineRunID {
		t.Error("the key started a second run")
	}
}

func TestLivingOwnerIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	release := make(chan struct{})
	b.script.on("a", until(release))
	err := b.interrupt(RunRequest{}, func(func()) {
		_, err := b.run(RunRequest{})
		wantCode(t, err, fault.RunOwned, fmt.Sprint("process ", os.Getpid()))
		_, err = b.run(RunRequest{Task: "b"})
		wantCode(t, err, fault.RunOwned)
		close(release)
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
}

// TestDeadOwner leaves a run the way a killed process does: owned, with a running attempt and no lock.
func TestDeadOwner(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	g, err := b.store.Graph(context.Background(), "SALES")
	if err != nil {
		t.Fatal(err)
	}
	run, err := b.store.AdmitRun(context.Background(), store.NewRun{PipelineID: g.Pipeline.ID, Key: "k", Date: "2026-09-01", Trigger: store.TriggerManual, OwnerID: "gone:1:x", Actor: tester})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := b.store.TaskRuns(context.Background(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.StartAttempt(context.Background(), store.StartAttempt{TaskRunID: rows[0].ID, Owner: "gone:1:x", Actor: tester}); err != nil {
		t.Fatal(err)
	}
	var earlier []store.Attempt
	b.script.on("a", func(_ context.Context, a *handlers.Attempt) (handlers.Result, error) {
		earlier = a.Earlier
		return wrote(3), nil
	})
	doc := b.mustRun(RunRequest{RunKey: "k"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS")
	if len(earlier) != 1 || earlier[0].Status != store.Lost {
		t.Errorf("earlier attempts: %+v", earlier)
	}
}

func TestParallelLimit(t *testing.T) {
	b := newBench(t)
	lines := []string{}
	release := make(chan struct{})
	for i := range 12 {
		lines = append(lines, fmt.Sprintf("t%d:", i))
		b.script.on(fmt.Sprintf("t%d", i), until(release))
	}
	b.apply(lines...)
	done := make(chan *RunDocument)
	go func() {
		doc, _ := b.run(RunRequest{})
		done <- doc
	}()
	for range 3 {
		<-b.script.started
	}
	close(release)
	doc := <-done
	if doc == nil || doc.Status != store.Success || b.script.max != 3 {
		t.Errorf("at most %d ran at once: %+v", b.script.max, doc)
	}
}

func TestTimeout(t *testing.T) {
	b := newBench(t)
	b.change = func(c *config.Config) { c.Orchestration.TaskTimeout = 1 }
	b.apply("a:", "b: a")
	b.script.on("a", until(nil))
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED")
	if doc.Tasks[0].Error.Code != string(fault.TaskTimeout) || b.value("SELECT STATUS FROM AUD_TASK_ATTEMPTS") != store.TimedOut {
		t.Errorf("error: %+v", doc.Tasks[0].Error)
	}
}

func TestLockIsHeldUntilTheOutcome(t *testing.T) {
	b := newBench(t)
	b.change = func(c *config.Config) { c.Orchestration.LockWait = 1 }
	b.apply("a:")
	key := locks.TargetKey("w", "t")
	held, err := b.locker.Lock(context.Background(), key, locks.Holder{What: "target t", Task: "other"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	take := func(ctx context.Context, a *handlers.Attempt) (handlers.Result, error) {
		if err := a.Hold(ctx, key, locks.Holder{What: "target t"}); err != nil {
			return handlers.Result{}, err
		}
		if l, err := b.locker.TryLock(ctx, key, locks.Holder{}); l != nil || err != nil {
			t.Errorf("the lock is free: %v", err)
		}
		doc, err := b.engine().Locks(ctx)
		if err != nil || len(doc.Locks) != 1 || *doc.Locks[0].Task != "a" {
			t.Errorf("locks: %+v %v", doc, err)
		}
		return wrote(1), a.Advance(ctx, store.Progress{Phase: store.PhaseCommitting})
	}
	b.script.on("a", take)
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	if doc.Tasks[0].Error.Code != string(fault.LockTimeout) || !strings.Contains(doc.Tasks[0].Error.Message, "other") {
		t.Errorf("error: %+v", doc.Tasks[0].Error)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	b.mustRun(RunRequest{RunID: doc.PipelineRunID})
	free, err := b.locker.TryLock(context.Background(), key, locks.Holder{})
	if err != nil || free == nil {
		t.Fatalf("the lock was not given back: %v", err)
	}
	_ = free.Release()
}

func TestInvalidMetadataStartsNothing(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	if _, err := b.store.Backend().Writer.Exec("INSERT INTO CFG_TASK_PARAMETERS (TASK_ID, PARAMETER_NAME, PARAMETER_VALUE) SELECT TASK_ID, 'RETRYS', '1' FROM CFG_TASKS"); err != nil {
		t.Fatal(err)
	}
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.MetadataInvalid)
	if p := fault.As(err).Problems; len(p) != 1 || p[0].Parameter != "RETRYS" || p[0].Task != "a" || !strings.Contains(p[0].Hint, "RETRIES") {
		t.Errorf("problems: %+v", p)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "0" {
		t.Errorf("runs: %s", got)
	}
}

func TestJoinedAndRetiredTasks(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	b.script.on("a", until(nil))
	wantCode(t, b.interrupt(RunRequest{}, func(cancel func()) { cancel() }, 1), fault.Interrupted)
	b.script.on("a", succeed(1))
	b.apply("a:", "c: a")
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SKIPPED/OPERATOR c=SUCCESS")
}

func TestGatesBetweenPipelines(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", "depends_on: [{pipeline: RAW, on: HAS_DATA}]\n", "a:", "b: {task: RAW.x, on: SUCCESS}", "c: b")
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.NotReady, "RAW on HAS_DATA")
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "0" {
		t.Errorf("runs: %s", got)
	}
	b.script.on("x", succeed(0))
	b.mustRun(RunRequest{Pipeline: "RAW"})
	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.NotReady)
	b.script.on("x", succeed(1))
	b.mustRun(RunRequest{Pipeline: "RAW"})
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS")
}

func TestRefusedTaskGate(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.apply("a:", "b: {task: RAW.x, on: SUCCESS}", "c: b")
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SKIPPED/GATE_REFUSED c=SKIPPED/CONDITION_UNMET")
}

// TestTaskOfAnotherProcessEndsMeanwhile lets another process's task end while this one's runs.
func TestTaskOfAnotherProcessEndsMeanwhile(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b:", "c: a")
	release, other := make(chan struct{}), make(chan error)
	b.script.on("a", until(release))
	e := b.engine()
	go func() {
		_, err := e.Run(context.Background(), RunRequest{Pipeline: "SALES", Task: "a"})
		other <- err
	}()
	<-b.script.started
	b.script.on("b", func(context.Context, *handlers.Attempt) (handlers.Result, error) {
		close(release)
		return wrote(1), <-other
	})
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS")
}

func TestStopWhileTheWarehouseIsAwaited(t *testing.T) {
	for _, how := range []string{"stop", "kill"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			b.apply("a:")
			e := b.engine()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			e.OpenWarehouse = func(ctx context.Context) (warehouses.Warehouse, error) {
				if how == "stop" {
					close(b.stop)
				} else {
					cancel()
				}
				<-ctx.Done()
				return nil, fault.New(fault.WarehouseDown, "not opened: %w", ctx.Err())
			}
			_, err := e.Run(ctx, RunRequest{Pipeline: "SALES"})
			wantCode(t, err, fault.Interrupted)
			if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "0" {
				t.Errorf("runs: %s", got)
			}
		})
	}
}

// diary is an Observer that keeps what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) RunStarted(r *RunDocument)      { d.add("run %s", states(r)) }
func (d *diary) TaskStarted(task string, n int) { d.add("%s starts %d", task, n) }
func (d *diary) TaskStep(task, step string)     { d.add("%s: %s", task, step) }
func (d *diary) TaskEnded(t TaskDocument)       { d.add("%s ends %s", t.Task, t.Status) }
func (d *diary) RunEnded(r *RunDocument)        { d.add("run ends %s", r.Status) }

func TestObserver(t *testing.T) {
	b := newBench(t)
	d := &diary{}
	b.observer = d
	b.apply("a:", "b: {task: a, on: FAILURE}")
	b.script.on("a", func(_ context.Context, a *handlers.Attempt) (handlers.Result, error) {
		a.Report("stage the SELECT")
		return wrote(1), nil
	})
	b.mustRun(RunRequest{})
	want := "run a=PENDING b=PENDING\na starts 1\na: stage the SELECT\na ends SUCCESS\nb ends SKIPPED\nrun ends SUCCESS"
	if got := strings.Join(d.lines, "\n"); got != want {
		t.Errorf("told:\n%s\nwant:\n%s", got, want)
	}
}
