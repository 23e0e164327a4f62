package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

func init() { watchEvery = 20 * time.Millisecond }

// background starts a run in a process of its own and returns what it comes to.
func (b *bench) background(req RunRequest) <-chan ran {
	if req.Pipeline == "" {
		req.Pipeline = "SALES"
	}
	e := b.engine()
	done := make(chan ran, 1)
	go func() {
		doc, err := e.Run(context.Background(), req)
		done <- ran{doc, err}
	}()
	return done
}

type ran struct {
	doc *RunDocument
	err error
}

// awaitStart waits until a task's handler is called.
func (b *bench) awaitStart(task string) {
	b.t.Helper()
	for {
		select {
		case started := <-b.script.started:
			if started == task {
				return
			}
		case <-time.After(30 * time.Second):
			b.t.Fatalf("%s never started", task)
		}
	}
}

func (b *bench) awaitValue(want, query string, args ...any) {
	b.t.Helper()
	got := ""
	for range 1500 {
		if got = b.value(query, args...); got == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.t.Fatalf("%s is %s, want %s", query, got, want)
}

const why = "because"

func operator(task, status string) OperatorRequest {
	return OperatorRequest{Pipeline: "SALES", Task: task, Status: status, Reason: why}
}

func (b *bench) mark(req OperatorRequest) *RunDocument {
	b.t.Helper()
	doc, err := b.engine().Mark(context.Background(), req)
	if err != nil {
		b.t.Fatal(err)
	}
	return doc
}

// operations is "MARK a FAILED>SUCCESS, …" of all runs.
func (b *bench) operations() string {
	b.t.Helper()
	doc, err := b.engine().History(context.Background(), "SALES", 100)
	if err != nil {
		b.t.Fatal(err)
	}
	var parts []string
	for _, i := range doc.Interventions {
		text := func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		}
		parts = append(parts, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s>%s", i.Action, text(i.Task), text(i.FromStatus), text(i.ToStatus))), " "))
	}
	return strings.Join(parts, ", ")
}

func TestCancelOfALivingRun(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	b.script.on("a", until(nil))
	running := b.background(RunRequest{})
	b.awaitStart("a")
	doc, err := b.engine().Cancel(context.Background(), operator("", ""))
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.Cancelled, "a=CANCELLED b=CANCELLED")
	r := <-running
	wantCode(t, r.err, fault.RunCancelled, "was cancelled")
	if fault.ExitCode(r.err) != 1 {
		t.Errorf("exit code %d", fault.ExitCode(r.err))
	}
	if got := b.value("SELECT STATUS || ' ' || ERROR_CODE FROM AUD_TASK_ATTEMPTS"); got != "CANCELLED RUN_CANCELLED" {
		t.Error(got)
	}
	if got := b.operations(); got != "CANCEL IN_PROGRESS>CANCELLED" {
		t.Error(got)
	}
	b.script.on("a", succeed(1))
	next := b.mustRun(RunRequest{})
	wantStates(t, next, store.Success, "a=SUCCESS b=SUCCESS")
	if next.PipelineRunID == doc.PipelineRunID {
		t.Error("the cancelled run went on")
	}
	_, err = b.run(RunRequest{RunID: doc.PipelineRunID})
	wantCode(t, err, fault.RunEnded, "was cancelled")
	again := operator("", "")
	again.RunID = doc.PipelineRunID
	_, err = b.engine().Cancel(context.Background(), again)
	wantCode(t, err, fault.RunEnded)
	_, err = b.engine().Cancel(context.Background(), operator("", ""))
	wantCode(t, err, fault.RunNotFound)
}

func TestCancelOfOneTask(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	b.script.on("a", until(nil))
	running := b.background(RunRequest{Task: "a"})
	b.awaitStart("a")
	doc, err := b.engine().Cancel(context.Background(), operator("", ""))
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.Cancelled, "a=CANCELLED b=CANCELLED")
	wantCode(t, (<-running).err, fault.RunCancelled)
}

// TestCancelWhileARetryIsWaitedFor: nothing runs, and the runner goes at once all the same.
func TestCancelWhileARetryIsWaitedFor(t *testing.T) {
	for _, req := range []RunRequest{{}, {Task: "a"}} {
		t.Run("task="+req.Task, func(t *testing.T) {
			b := newBench(t)
			b.applyRetrying("RETRIES: 1, RETRY_DELAY_SECONDS: 3600")
			b.script.on("a", failing(1, true))
			running := b.background(req)
			b.awaitValue("1", "SELECT COUNT(*) FROM AUD_TASK_RUN_LOG WHERE NOT_BEFORE IS NOT NULL")
			if _, err := b.engine().Cancel(context.Background(), operator("", "")); err != nil {
				t.Fatal(err)
			}
			wantCode(t, (<-running).err, fault.RunCancelled)
		})
	}
}

// leftBehind is a run as a killed process leaves it: owned, a running, and no lock.
func (b *bench) leftBehind() *store.Run {
	b.t.Helper()
	ctx := context.Background()
	g, err := b.store.Graph(ctx, "SALES")
	if err != nil {
		b.t.Fatal(err)
	}
	run, err := b.store.AdmitRun(ctx, store.NewRun{PipelineID: g.Pipeline.ID, Key: "k", Date: "2026-09-01", Trigger: store.TriggerManual, OwnerID: "gone:1:x", Actor: tester})
	if err != nil {
		b.t.Fatal(err)
	}
	rows, err := b.store.TaskRuns(ctx, run.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.store.StartAttempt(ctx, store.StartAttempt{TaskRunID: rows[0].ID, Owner: "gone:1:x", Actor: tester}); err != nil {
		b.t.Fatal(err)
	}
	return run
}

func TestCancelOfADeadRun(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	b.leftBehind()
	doc, err := b.engine().Cancel(context.Background(), operator("", ""))
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.Cancelled, "a=CANCELLED b=CANCELLED")
	if got := b.value("SELECT STATUS FROM AUD_TASK_ATTEMPTS"); got != store.Cancelled {
		t.Error(got)
	}
}

func TestCancelGivesUpOnARunnerThatDoesNotAnswer(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	run := b.leftBehind()
	silent, err := b.locker.Lock(context.Background(), locks.OwnerKey("gone:1:x"), locks.Holder{What: "silent"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cancelPatience = 100 * time.Millisecond
	defer func() { cancelPatience = time.Minute }()
	_, err = b.engine().Cancel(context.Background(), operator("", ""))
	wantCode(t, err, fault.RunUnfinished, "task a is still being ended by process 1 on host gone")
	if err := silent.Release(); err != nil {
		t.Fatal(err)
	}
	doc, err := b.engine().Reconcile(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Lost) != 1 || doc.Lost[0].TaskStatus != store.Cancelled || doc.Lost[0].PipelineRunID != run.ID {
		t.Errorf("%+v", doc)
	}
}

func TestPauseOfALivingRun(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	release := make(chan struct{})
	b.script.on("a", until(release))
	running := b.background(RunRequest{})
	b.awaitStart("a")
	doc, err := b.engine().Pause(context.Background(), operator("", ""))
	if err != nil {
		t.Fatal(err)
	}
	if !doc.Paused || *doc.Reason != why || *doc.PausedBy != tester.Name || doc.PipelineRunID == nil {
		t.Errorf("%+v", doc)
	}
	_, err = b.engine().Pause(context.Background(), operator("", ""))
	wantCode(t, err, fault.Paused, tester.Name, why)
	close(release)
	wantCode(t, (<-running).err, fault.RunUnfinished, "paused by tester: because", "etl-craft resume --pipeline SALES")
	status, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, status, store.InProgress, "a=SUCCESS b=PENDING")
	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.Paused, "etl-craft resume")
	_, err = b.run(RunRequest{Task: "b"})
	wantCode(t, err, fault.Paused)
	for _, changed := range []bool{true, false} {
		doc, err := b.engine().Resume(context.Background(), OperatorRequest{Pipeline: "SALES"})
		if err != nil {
			t.Fatal(err)
		}
		if doc.Paused || doc.Changed != changed {
			t.Errorf("%+v", doc)
		}
	}
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SUCCESS")
}

// TestPauseLetsAFinishedRunEnd: with nothing left to start, the pause keeps nothing back.
func TestPauseLetsAFinishedRunEnd(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	release := make(chan struct{})
	b.script.on("a", until(release))
	running := b.background(RunRequest{})
	b.awaitStart("a")
	if _, err := b.engine().Pause(context.Background(), operator("", "")); err != nil {
		t.Fatal(err)
	}
	close(release)
	r := <-running
	if r.err != nil {
		t.Fatal(r.err)
	}
	wantStates(t, r.doc, store.Success, "a=SUCCESS")
}

// TestPauseWhileAGateIsWaitedFor: no run comes into being.
func TestPauseWhileAGateIsWaitedFor(t *testing.T) {
	b := newBench(t)
	b.change = func(c *config.Config) { c.Orchestration.GateWait = time.Hour }
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", onRaw, "a:")
	release := make(chan struct{})
	b.script.on("x", until(release))
	upstream := b.background(RunRequest{Pipeline: "RAW"})
	b.awaitStart("x")
	downstream := b.background(RunRequest{})
	b.awaitValue("1", "SELECT COUNT(*) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL")
	if _, err := b.engine().Pause(context.Background(), operator("", "")); err != nil {
		t.Fatal(err)
	}
	wantCode(t, (<-downstream).err, fault.Paused, "tester: because")
	close(release)
	if r := <-upstream; r.err != nil {
		t.Fatal(r.err)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "1" {
		t.Errorf("%s runs", got)
	}
}

func TestPauseWhileARetryIsWaitedFor(t *testing.T) {
	for _, req := range []RunRequest{{}, {Task: "a"}} {
		t.Run("task="+req.Task, func(t *testing.T) {
			b := newBench(t)
			b.applyRetrying("RETRIES: 1, RETRY_DELAY_SECONDS: 3600")
			b.script.on("a", failing(1, true))
			running := b.background(req)
			b.awaitValue("1", "SELECT COUNT(*) FROM AUD_TASK_RUN_LOG WHERE NOT_BEFORE IS NOT NULL")
			if _, err := b.engine().Pause(context.Background(), operator("", "")); err != nil {
				t.Fatal(err)
			}
			wantCode(t, (<-running).err, fault.RunUnfinished, "paused")
		})
	}
}

// TestMarkInALivingRun: a process that works on the run takes the change into account.
func TestMarkInALivingRun(t *testing.T) {
	b := newBench(t)
	b.apply("slow:", "later: slow", "bad:", "after: bad", "last: later")
	release := make(chan struct{})
	b.script.on("slow", until(release))
	b.script.on("bad", fails)
	running := b.background(RunRequest{})
	b.awaitStart("slow")
	b.awaitValue("SKIPPED", "SELECT l.STATUS FROM AUD_TASK_RUN_LOG l JOIN CFG_TASKS t USING (TASK_ID) WHERE t.TASK_CODE = 'after'")

	_, err := b.engine().Mark(context.Background(), operator("slow", store.Success))
	wantCode(t, err, fault.TaskState, "is running")
	_, err = b.engine().Mark(context.Background(), operator("", store.Success))
	wantCode(t, err, fault.TaskState, "running")
	_, err = b.engine().Skip(context.Background(), operator("", ""))
	wantCode(t, err, fault.TaskState, "running")

	b.mark(operator("bad", store.Success))
	b.awaitStart("after")
	if _, err := b.engine().Skip(context.Background(), operator("later", "")); err != nil {
		t.Fatal(err)
	}
	close(release)
	r := <-running
	if r.err != nil {
		t.Fatal(r.err)
	}
	wantStates(t, r.doc, store.Success, "slow=SUCCESS later=SKIPPED/OPERATOR bad=SUCCESS after=SUCCESS last=SKIPPED/CONDITION_UNMET")
	if got := b.operations(); got != "MARK bad FAILED>SUCCESS, RESET after SKIPPED>, SKIP later PENDING>SKIPPED" {
		t.Error(got)
	}
}

// TestMarkJustBeforeTheEnd: the last task to run has the failed one marked, and the run does not end before its dependents.
func TestMarkJustBeforeTheEnd(t *testing.T) {
	watchEvery = time.Hour // so that only the end can notice
	defer func() { watchEvery = 20 * time.Millisecond }()
	b := newBench(t)
	b.apply("bad:", "after: bad", "slow:")
	b.script.on("bad", fails)
	release := make(chan struct{})
	b.script.on("slow", until(release))
	running := b.background(RunRequest{})
	b.awaitStart("slow")
	b.awaitValue("SKIPPED", "SELECT l.STATUS FROM AUD_TASK_RUN_LOG l JOIN CFG_TASKS t USING (TASK_ID) WHERE t.TASK_CODE = 'after'")
	b.mark(operator("bad", store.Success))
	close(release)
	r := <-running
	if r.err != nil {
		t.Fatal(r.err)
	}
	wantStates(t, r.doc, store.Success, "bad=SUCCESS after=SUCCESS slow=SUCCESS")
}

func TestMarkTaskOfAFailedRun(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: b", "alert: {task: a, on: FAILURE}")
	b.script.on("a", fails)
	failed, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, failed, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=SKIPPED/UPSTREAM_FAILED alert=SUCCESS")
	_, err = b.engine().Mark(context.Background(), operator("a", store.Success))
	wantCode(t, err, fault.RunNotFound, "no unfinished run")

	req := operator("a", store.Success)
	req.RunID = failed.PipelineRunID
	wantStates(t, b.mark(req), store.InProgress, "a=SUCCESS b=PENDING c=PENDING alert=SUCCESS")
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS alert=SUCCESS")

	// What leaves nothing to do ends the run again.
	req = operator("c", store.Failed)
	req.RunKey = failed.RunKey
	doc := b.mark(req)
	wantStates(t, doc, store.Failed, "a=SUCCESS b=SUCCESS c=FAILED alert=SUCCESS")
	if e := doc.Tasks[2].Error; e == nil || e.Code != string(fault.MarkedFailed) || e.Message != why {
		t.Errorf("%+v", e)
	}
	req.Status = store.Skipped
	wantStates(t, b.mark(req), store.Success, "a=SUCCESS b=SUCCESS c=SKIPPED/OPERATOR alert=SUCCESS")
}

func TestMarkedRows(t *testing.T) {
	rows, none := int64(3), int64(0)
	for _, c := range []struct {
		rows *int64
		want string
	}{
		{&rows, "a=SUCCESS b=SUCCESS"}, {&none, "a=SUCCESS b=SKIPPED/CONDITION_UNMET"}, {nil, "a=SUCCESS b=SKIPPED/CONDITION_UNMET"},
	} {
		b := newBench(t)
		b.apply("a:", "b: {task: a, on: HAS_DATA}")
		b.script.on("a", fails)
		failed, err := b.run(RunRequest{})
		wantCode(t, err, fault.RunFailed)
		req := operator("a", store.Success)
		req.RunID, req.Rows = failed.PipelineRunID, c.rows
		doc := b.mark(req)
		if doc.Status == store.InProgress {
			doc = b.mustRun(RunRequest{})
		}
		wantStates(t, doc, store.Success, c.want)
	}
}

func TestMarkRunAndStandIn(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	_, err := b.engine().Mark(context.Background(), operator("", store.Success))
	wantCode(t, err, fault.RunNotFound)
	b.mustRun(RunRequest{Task: "a"})
	standIn := OperatorRequest{Pipeline: "SALES", Status: store.Success, NewRun: true, Reason: why}
	_, err = b.engine().Mark(context.Background(), standIn)
	wantCode(t, err, fault.RunActive)
	wantStates(t, b.mark(operator("", store.Skipped)), store.Skipped, "a=SUCCESS b=PENDING")
	doc := b.mark(standIn)
	wantStates(t, doc, store.Success, "")
	if doc.Trigger != store.TriggerStandIn || !strings.HasPrefix(doc.RunKey, "stand-in:") || doc.EndedAt == nil {
		t.Errorf("%+v", doc)
	}
	if got := b.operations(); got != "MARK IN_PROGRESS>SKIPPED, NEW_RUN >SUCCESS" {
		t.Error(got)
	}
}

func TestSkip(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b:", "c: b")
	_, err := b.engine().Skip(context.Background(), operator("", ""))
	wantCode(t, err, fault.RunNotFound)
	b.mustRun(RunRequest{Task: "a"})
	_, err = b.engine().Skip(context.Background(), operator("a", ""))
	wantCode(t, err, fault.TaskState, "a is SUCCESS")
	doc, err := b.engine().Skip(context.Background(), operator("", ""))
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.Success, "a=SUCCESS b=SKIPPED/OPERATOR c=SKIPPED/OPERATOR")

	b.script.on("a", fails)
	_, err = b.run(RunRequest{Task: "a"})
	wantCode(t, err, fault.RunFailed)
	b.mustRun(RunRequest{Task: "b"})
	b.mustRun(RunRequest{Task: "c"}) // ends the run
	newest, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil {
		t.Fatal(err)
	}
	req := operator("a", "")
	req.RunID = newest.PipelineRunID
	doc, err = b.engine().Skip(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.Success, "a=SKIPPED/OPERATOR b=SUCCESS c=SUCCESS")
}

func TestReconcile(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	run := b.leftBehind()
	doc, err := b.engine().Reconcile(context.Background(), "SALES")
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Lost) != 1 || doc.Lost[0].Task != "a" || doc.Lost[0].TaskStatus != store.Pending || doc.Lost[0].Owner != "gone:1:x" {
		t.Errorf("%+v", doc.Lost)
	}
	if len(doc.Released) != 1 || doc.Released[0].PipelineRunID != run.ID || len(doc.Living) != 0 {
		t.Errorf("%+v", doc)
	}
	if got := b.value("SELECT STATUS FROM AUD_TASK_ATTEMPTS"); got != store.Lost {
		t.Error(got)
	}
	release := make(chan struct{})
	b.script.on("a", until(release))
	running := b.background(RunRequest{})
	b.awaitStart("a")
	doc, err = b.engine().Reconcile(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Lost)+len(doc.Released) != 0 || len(doc.Living) != 1 {
		t.Errorf("%+v", doc)
	}
	close(release)
	if r := <-running; r.err != nil {
		t.Fatal(r.err)
	}
}

func TestReconcileUnderAnOrchestrator(t *testing.T) {
	b := newRemote(t)
	b.apply("a:")
	b.leftBehind()
	doc, err := b.engine().Reconcile(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Lost) != 1 || doc.Lost[0].TaskStatus != store.Failed {
		t.Errorf("%+v", doc)
	}
	for name, do := range map[string]func(context.Context, OperatorRequest) error{
		"mark":   func(c context.Context, r OperatorRequest) error { _, err := b.engine().Mark(c, r); return err },
		"skip":   func(c context.Context, r OperatorRequest) error { _, err := b.engine().Skip(c, r); return err },
		"cancel": func(c context.Context, r OperatorRequest) error { _, err := b.engine().Cancel(c, r); return err },
		"pause":  func(c context.Context, r OperatorRequest) error { _, err := b.engine().Pause(c, r); return err },
	} {
		wantCode(t, do(context.Background(), operator("", store.Success)), fault.WrongMode, name)
	}
}

func TestOperatorUsage(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	ctx, rows, negative := context.Background(), int64(1), int64(-1)
	for name, req := range map[string]OperatorRequest{
		"--pipeline":                         {Status: store.Success, Reason: why},
		"--reason":                           {Pipeline: "SALES", Status: store.Success, Reason: " "},
		"--run-id and --run-key":             {Pipeline: "SALES", Status: store.Success, Reason: why, RunID: 1, RunKey: "k"},
		"--status":                           {Pipeline: "SALES", Status: "DONE", Reason: why},
		"--rows is for":                      {Pipeline: "SALES", Status: store.Success, Reason: why, Rows: &rows},
		"--rows is a number":                 {Pipeline: "SALES", Task: "a", Status: store.Success, Reason: why, Rows: &negative},
		"--new-run excludes --run-id":        {Pipeline: "SALES", Status: store.Success, Reason: why, NewRun: true, RunID: 1},
		"--new-run excludes --task":          {Pipeline: "SALES", Status: store.Success, Reason: why, NewRun: true, Task: "a"},
		"--run-id is a number":               {Pipeline: "SALES", Status: store.Success, Reason: why, RunID: -1},
		"--rows is for --task with --status": {Pipeline: "SALES", Task: "a", Status: store.Failed, Reason: why, Rows: &rows},
	} {
		_, err := b.engine().Mark(ctx, req)
		wantCode(t, err, fault.Usage, name)
	}
	for _, do := range []func(context.Context, OperatorRequest) error{
		func(c context.Context, r OperatorRequest) error { _, err := b.engine().Skip(c, r); return err },
		func(c context.Context, r OperatorRequest) error { _, err := b.engine().Cancel(c, r); return err },
		func(c context.Context, r OperatorRequest) error { _, err := b.engine().Pause(c, r); return err },
	} {
		wantCode(t, do(ctx, OperatorRequest{Pipeline: "SALES"}), fault.Usage, "--reason")
	}
	_, err := b.engine().Mark(ctx, operator("x", store.Success))
	wantCode(t, err, fault.TaskNotFound)
	_, err = b.engine().Mark(ctx, OperatorRequest{Pipeline: "SALES", RunKey: "none", Status: store.Success, Reason: why})
	wantCode(t, err, fault.RunNotFound, "none")
	_, err = b.engine().Skip(ctx, OperatorRequest{Pipeline: "X", Reason: why})
	wantCode(t, err, fault.PipelineNotFound)
}

func TestAudit(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	b.script.on("a", fails)
	failed, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	req := operator("a", store.Success)
	req.RunID = failed.PipelineRunID
	b.mark(req)
	b.applyTo("OTHER", "", "z:")
	_, err = b.engine().Pause(context.Background(), OperatorRequest{Pipeline: "OTHER", Reason: why})
	if err != nil {
		t.Fatal(err)
	}
	lines := func(pipeline, since string) (commands string, kinds map[string]int) {
		t.Helper()
		doc, err := b.engine().Audit(context.Background(), pipeline, since)
		if err != nil {
			t.Fatal(err)
		}
		kinds = map[string]int{}
		var parts []string
		for i, e := range doc.Entries {
			kinds[e.Kind]++
			if i > 0 && e.At.Before(doc.Entries[i-1].At.Time) {
				t.Errorf("entry %d is older than the one before", i)
			}
			if e.Kind != AuditCommand {
				continue
			}
			part := e.Action + ":" + *e.Outcome
			if e.PipelineRunID != nil && *e.PipelineRunID == failed.PipelineRunID {
				part += ":its run"
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "), kinds
	}
	commands, kinds := lines("SALES", "1h")
	if commands != "run:RUN_FAILED:its run mark:DONE:its run" {
		t.Error(commands)
	}
	if kinds[AuditIntervention] != 3 || kinds[AuditMetadata] == 0 { // REOPEN, MARK, RESET
		t.Error(kinds)
	}
	commands, _ = lines("", "2026-01-01")
	if commands != "apply:DONE run:RUN_FAILED:its run mark:DONE:its run apply:DONE pause:DONE" {
		t.Error(commands)
	}
	_, err = b.engine().Audit(context.Background(), "NONE", "1h")
	wantCode(t, err, fault.PipelineNotFound)
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"24h": "2026-09-09T12:00:00Z", "7d": "2026-09-03T12:00:00Z", "90m": "2026-09-10T10:30:00Z", "0d": "2026-09-10T12:00:00Z",
		"2026-09-01": "2026-09-01T00:00:00Z", "2026-09-01T05:30": "2026-09-01T05:30:00Z", "2026-09-01 05:30:01": "2026-09-01T05:30:01Z",
		"2026-09-01T05:30:00+02:00": "2026-09-01T03:30:00Z", "-1h": "", "yesterday": "", "": "", "-3d": "", "7": "",
	} {
		got, err := parseSince(text, now)
		if want == "" {
			wantCode(t, err, fault.Usage, "--since")
			continue
		}
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v", text, got.Format(time.RFC3339), err)
		}
	}
}

// TestCancelMeetsSkip cancels a run just before a failed task would skip another one: what runs is ended all the same,
// though nobody looks at the run in between.
func TestCancelMeetsSkip(t *testing.T) {
	watchEvery = time.Hour
	defer func() { watchEvery = 20 * time.Millisecond }()
	b := newBench(t)
	b.apply("long", "fails", "after: fails")
	fail := make(chan struct{})
	b.script.on("long", until(nil))
	b.script.on("fails", func(ctx context.Context, a *handlers.Attempt) (handlers.Result, error) {
		<-fail
		return fails(ctx, a)
	})
	type answer struct {
		doc *RunDocument
		err error
	}
	ended := make(chan answer)
	go func() {
		doc, err := b.run(RunRequest{})
		ended <- answer{doc, err}
	}()
	<-b.script.started
	<-b.script.started
	run, err := b.store.UnfinishedRun(context.Background(), b.pipelineID())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.CancelRun(context.Background(), run.ID, "why", tester); err != nil {
		t.Fatal(err)
	}
	close(fail)
	wantCode(t, (<-ended).err, fault.RunCancelled)
	doc, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil {
		t.Fatal(err)
	}
	if states(doc) != "long=CANCELLED fails=FAILED after=CANCELLED" && states(doc) != "long=CANCELLED fails=CANCELLED after=CANCELLED" {
		t.Error(states(doc))
	}
}

func (b *bench) pipelineID() int64 {
	b.t.Helper()
	id, err := b.engine().pipelineID(context.Background(), "SALES")
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}
