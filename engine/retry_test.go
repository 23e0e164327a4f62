package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// failing fails n times and then succeeds. A transient error is one that may pass.
func failing(n int, transient bool) func(context.Context, *handlers.Attempt) (handlers.Result, error) {
	return func(context.Context, *handlers.Attempt) (handlers.Result, error) {
		if n == 0 {
			return wrote(1), nil
		}
		n--
		err := fault.New(fault.StatementFailed, "the server is tired")
		err.Retryable = transient
		return handlers.Result{}, err
	}
}

func (b *bench) applyRetrying(params string) {
	b.t.Helper()
	b.write("pipelines/SALES.yml", `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - { task: a, handler: TEST, params: { `+params+` } }
  - { task: alert, handler: TEST, depends_on: [{task: a, on: FAILURE}] }
  - { task: next, handler: TEST, depends_on: [a] }
`)
	if _, err := b.engine().Apply(context.Background(), false); err != nil {
		b.t.Fatalf("%v %+v", err, fault.As(err).Problems)
	}
}

// TestRetries: how often a task is tried, and that its dependents wait for the last try.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name, params      string
		config            int
		fails             int
		transient         bool
		status, tasks     string
		attempts, waiting int
	}{
		{"none by default", "X_NOTE: 1", 0, 1, true, store.Failed, "a=FAILED alert=SUCCESS next=SKIPPED/UPSTREAM_FAILED", 1, 0},
		{"enough", "RETRIES: 2, RETRY_DELAY_SECONDS: 0", 0, 2, true, store.Success, "a=SUCCESS alert=SKIPPED/CONDITION_UNMET next=SUCCESS", 3, 2},
		{"used up", "RETRIES: 2, RETRY_DELAY_SECONDS: 0", 0, 3, true, store.Failed, "a=FAILED alert=SUCCESS next=SKIPPED/UPSTREAM_FAILED", 3, 2},
		{"not for errors that stay", "RETRIES: 2, RETRY_DELAY_SECONDS: 0", 0, 1, false, store.Failed, "a=FAILED alert=SUCCESS next=SKIPPED/UPSTREAM_FAILED", 1, 0},
		{"of the project", "RETRY_DELAY_SECONDS: 0", 1, 1, true, store.Success, "a=SUCCESS alert=SKIPPED/CONDITION_UNMET next=SUCCESS", 2, 1},
		{"of the task, against the project's", "RETRIES: 0, RETRY_DELAY_SECONDS: 0", 1, 1, true, store.Failed, "a=FAILED alert=SUCCESS next=SKIPPED/UPSTREAM_FAILED", 1, 0},
		{"after a wait", "RETRIES: 1, RETRY_DELAY_SECONDS: 1", 0, 1, true, store.Success, "a=SUCCESS alert=SKIPPED/CONDITION_UNMET next=SUCCESS", 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.change = func(o *config.Config) { o.Orchestration.Retries = c.config }
			b.applyRetrying(c.params)
			b.script.on("a", failing(c.fails, c.transient))
			doc, err := b.run(RunRequest{})
			if (err != nil) != (c.status == store.Failed) {
				t.Errorf("error: %v", err)
			}
			wantStates(t, doc, c.status, c.tasks)
			if doc.Tasks[0].Attempts != c.attempts || doc.Tasks[0].NotBefore != nil {
				t.Errorf("task: %+v", doc.Tasks[0])
			}
			if got := b.value("SELECT COUNT(*) FROM AUD_TASK_ATTEMPTS WHERE NOT_BEFORE IS NOT NULL"); got != fmt.Sprint(c.waiting) {
				t.Errorf("%s attempts were followed by a wait, want %d", got, c.waiting)
			}
		})
	}
}

// TestRetriesOfOneTask: a call for one task waits for its retries too, and its exit is that of the last try.
func TestRetriesOfOneTask(t *testing.T) {
	b := newBench(t)
	b.applyRetrying("RETRIES: 1, RETRY_DELAY_SECONDS: 0")
	b.script.on("a", failing(2, true))
	doc, err := b.run(RunRequest{Task: "a"})
	wantCode(t, err, fault.RunFailed, "tired")
	if doc.Tasks[0].Attempts != 2 {
		t.Errorf("task: %+v", doc.Tasks[0])
	}
	b.script.on("a", failing(1, true))
	doc = b.mustRun(RunRequest{Task: "a", RunID: doc.PipelineRunID}) // retries start anew when a person asks again
	if doc.Tasks[0].Status != store.Success || doc.Tasks[0].Attempts != 4 {
		t.Errorf("task: %+v", doc.Tasks[0])
	}
}

// TestRetryGoesOnElsewhere: a wait that is interrupted leaves a run that another process continues, and not before the
// retry is due.
func TestRetryGoesOnElsewhere(t *testing.T) {
	b := newBench(t)
	b.applyRetrying("RETRIES: 1, RETRY_DELAY_SECONDS: 2")
	b.script.on("a", failing(1, true))
	first := b.engine()
	stop := make(chan struct{})
	first.Stop = stop
	failed := time.Now()
	ended := make(chan error)
	go func() {
		_, err := first.Run(context.Background(), RunRequest{Pipeline: "SALES"})
		ended <- err
	}()
	<-b.script.started
	for b.value("SELECT COUNT(*) FROM AUD_TASK_RUN_LOG WHERE NOT_BEFORE IS NOT NULL") == "0" {
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	if err := <-ended; !fault.Has(err, fault.Interrupted) {
		t.Fatal(err)
	}
	status, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil || status.Tasks[0].Status != store.Pending || status.Tasks[0].NotBefore == nil || status.Tasks[0].Error == nil {
		t.Fatalf("%v %+v", err, status.Tasks[0])
	}
	doc := b.mustRun(RunRequest{})
	wantStates(t, doc, store.Success, "a=SUCCESS alert=SKIPPED/CONDITION_UNMET next=SUCCESS")
	if waited := time.Since(failed); waited < 2*time.Second {
		t.Errorf("the retry came after %s", waited)
	}
}

func TestRetryWaits(t *testing.T) {
	p := retryPolicy{retries: 20, delay: 10 * time.Second, backoff: 3}
	for used, want := range []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second} {
		if wait, ok := p.wait(used); !ok || wait != want {
			t.Errorf("wait %d is %s, %t", used, wait, ok)
		}
	}
	if wait, ok := p.wait(19); !ok || wait != time.Hour {
		t.Errorf("the longest wait is %s, %t", wait, ok)
	}
	if _, ok := p.wait(20); ok {
		t.Error("a retry too many")
	}
}

func TestRetriesUsed(t *testing.T) {
	due := time.Now()
	retried, given, lost := store.Attempt{Status: store.Failed, NotBefore: &due}, store.Attempt{Status: store.Failed}, store.Attempt{Status: store.Lost}
	for _, c := range []struct {
		attempts []store.Attempt
		want     int
	}{
		{nil, 0},
		{[]store.Attempt{retried, retried}, 2},
		{[]store.Attempt{retried, lost, retried}, 2},
		{[]store.Attempt{retried, given, lost}, 0},
		{[]store.Attempt{given, retried}, 1},
	} {
		if got := retriesUsed(c.attempts); got != c.want {
			t.Errorf("%+v: %d, want %d", c.attempts, got, c.want)
		}
	}
}
