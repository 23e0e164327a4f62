package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (b *bench) backfill(days string) (*BackfillDocument, error) {
	b.t.Helper()
	return b.engine().Backfill(context.Background(), RunRequest{Pipeline: "SALES", Backfill: days, Reason: "it's needed"})
}

func (b *bench) mustBackfill(days string) *BackfillDocument {
	b.t.Helper()
	doc, err := b.backfill(days)
	if err != nil {
		b.t.Fatal(err)
	}
	return doc
}

// daysOfRuns is "01=SUCCESS 02=FAILED".
func daysOfRuns(doc *BackfillDocument) string {
	var days []string
	for _, r := range doc.Runs {
		days = append(days, strings.TrimPrefix(r.RunDate, "2026-09-")+"="+r.Status)
	}
	return strings.Join(days, " ")
}

// onDay lets task a fail on one day, and keeps the days that it ran for.
type onDay struct {
	mu    sync.Mutex
	fails string
	seen  []string
}

func (d *onDay) run(_ context.Context, a *handlers.Attempt) (handlers.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	day := a.RunDate.Format("02")
	d.seen = append(d.seen, day)
	if day == d.fails {
		return fails(context.Background(), a)
	}
	return wrote(1), nil
}

func (d *onDay) took() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := strings.Join(d.seen, " ")
	d.seen = nil
	return seen
}

func (b *bench) days(fails string) *onDay {
	d := &onDay{fails: fails}
	b.script.on("a", d.run)
	return d
}

func TestBackfill(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	a := b.days("")
	doc := b.mustBackfill("2026-09-01:2026-09-03")
	if got := daysOfRuns(doc); got != "01=SUCCESS 02=SUCCESS 03=SUCCESS" || doc.StoppedAt != nil || a.took() != "01 02 03" {
		t.Errorf("days %s, document %+v", got, doc)
	}
	if doc.Schema != "etl-craft/backfill/1" || doc.FirstDate != "2026-09-01" || doc.LastDate != "2026-09-03" {
		t.Errorf("document: %+v", doc)
	}
	first := doc.Runs[0]
	if first.Trigger != store.TriggerBackfill || !strings.HasPrefix(first.RunKey, "backfill:2026-09-01:") {
		t.Errorf("run: %+v", first)
	}
	if got := b.interventions(first.PipelineRunID); got != "NEW_RUN - IN_PROGRESS it's needed" {
		t.Errorf("interventions: %s", got)
	}
	if got := b.value("SELECT COMMAND || ' ' || OUTCOME || ' ' || (ARGUMENTS LIKE '%2026-09-01:2026-09-03%') FROM AUD_ACTIONS WHERE COMMAND = 'run'"); got != "run DONE 1" {
		t.Errorf("action: %s", got)
	}

	// The same days once more are new runs: nothing of the backfill is left to be done.
	again := b.mustBackfill("2026-09-01:2026-09-03")
	if again.Runs[0].PipelineRunID == first.PipelineRunID || a.took() != "01 02 03" {
		t.Errorf("runs: %s", daysOfRuns(again))
	}
}

// TestBackfillStops: at the first day that does not end well, with the command that goes on; that command and the first
// one both continue.
func TestBackfillStops(t *testing.T) {
	for _, next := range []string{"2026-09-01:2026-09-04", "2026-09-03:2026-09-04", "2026-09-02:2026-09-06"} {
		b := newBench(t)
		b.apply("a:", "b: a")
		a := b.days("03")
		doc, err := b.backfill("2026-09-01:2026-09-04")
		wantCode(t, err, fault.RunFailed, "stopped at 2026-09-03", "1 of 2 tasks failed",
			`etl-craft run --pipeline SALES --backfill 2026-09-03:2026-09-04 --reason 'it'\''s needed'`)
		if got := daysOfRuns(doc); got != "01=SUCCESS 02=SUCCESS 03=FAILED" || *doc.StoppedAt != "2026-09-03" {
			t.Errorf("days %s, document %+v", got, doc)
		}
		if got := b.value("SELECT EXIT_CODE FROM AUD_ACTIONS WHERE COMMAND = 'run'"); got != "1" {
			t.Errorf("exit code: %s", got)
		}
		a.took()
		_, err = b.backfill(next)
		wantCode(t, err, fault.RunFailed, "stopped at 2026-09-03")
		if got := a.took(); got != "03" {
			t.Errorf("%s: ran %s", next, got)
		}

		a.fails = ""
		on := b.mustBackfill(next)
		days := on.Runs[len(on.Runs)-1].RunDate[8:]
		if got, want := a.took(), map[string]string{"04": "03 04", "06": "03 04 05 06"}[days]; got != want {
			t.Errorf("%s: ran %s, want %s", next, got, want)
		}
		for _, r := range on.Runs {
			if r.RunDate == "2026-09-03" && (r.PipelineRunID != doc.Runs[2].PipelineRunID || r.Tasks[0].Attempts != 3) {
				t.Errorf("the failed run was not continued: %+v", r)
			}
			if r.RunDate == "2026-09-02" && r.PipelineRunID != doc.Runs[1].PipelineRunID {
				t.Errorf("a day was done twice: %+v", r)
			}
		}
		b.mustBackfill("2026-09-03:2026-09-04")
		if got := a.took(); got != "03 04" {
			t.Errorf("after the end: ran %s", got)
		}
	}
}

// TestBackfillStartsAnew: other days are another backfill, and a day that was repaired by hand is done.
func TestBackfillStartsAnew(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	a := b.days("02")
	_, err := b.backfill("2026-09-01:2026-09-03")
	wantCode(t, err, fault.RunFailed)
	a.fails = "none"
	a.took()
	b.mustBackfill("2026-09-10:2026-09-11")
	if got := a.took(); got != "10 11" {
		t.Errorf("ran %s", got)
	}
	b.mustBackfill("2026-09-01:2026-09-02") // it is not the newest backfill any more
	if got := a.took(); got != "01 02" {
		t.Errorf("ran %s", got)
	}

	a.fails = "05"
	doc, _ := b.backfill("2026-09-04:2026-09-06")
	a.fails = "none"
	b.mustRun(RunRequest{RunID: doc.Runs[1].PipelineRunID})
	a.took()
	b.mustBackfill("2026-09-04:2026-09-06")
	if got := a.took(); got != "06" {
		t.Errorf("ran %s", got)
	}
}

// TestInterruptedBackfill: the same command goes on with the unfinished run; nothing else does.
func TestInterruptedBackfill(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	b.script.on("b", until(nil))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	e := b.engine()
	go func() {
		_, err := e.Backfill(ctx, RunRequest{Pipeline: "SALES", Backfill: "2026-09-01:2026-09-02", Reason: "r"})
		ended <- err
	}()
	for <-b.script.started != "b" {
	}
	_, err := b.backfill("2026-09-01:2026-09-02")
	wantCode(t, err, fault.RunOwned)
	cancel()
	wantCode(t, <-ended, fault.Interrupted, "--backfill 2026-09-01:2026-09-02 --reason 'r'")

	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.RunActive, "belongs to a backfill", "--run-id")
	_, err = b.run(RunRequest{Task: "b"})
	wantCode(t, err, fault.RunActive)
	_, err = b.run(RunRequest{Force: true, Reason: "r"})
	wantCode(t, err, fault.RunActive)
	_, err = b.backfill("2026-09-02:2026-09-03")
	wantCode(t, err, fault.RunActive, "--run-id")
	_, err = b.backfill("2026-08-31:2026-09-03")
	wantCode(t, err, fault.RunActive)

	a := b.days("")
	b.script.on("b", succeed(1))
	doc := b.mustBackfill("2026-09-01:2026-09-02")
	if got := daysOfRuns(doc); got != "01=SUCCESS 02=SUCCESS" || a.took() != "02" || doc.Runs[0].Tasks[1].Attempts != 2 {
		t.Errorf("days %s, document %+v", got, doc.Runs[0])
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "2" {
		t.Errorf("runs: %s", got)
	}
}

// TestUnfinishedBackfillRunAlone: its id finishes it, without the days behind it.
func TestUnfinishedBackfillRunAlone(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	b.script.on("a", until(nil))
	e := b.engine()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := e.Backfill(ctx, RunRequest{Pipeline: "SALES", Backfill: "2026-09-01:2026-09-02", Reason: "r"})
		ended <- err
	}()
	<-b.script.started
	cancel()
	wantCode(t, <-ended, fault.Interrupted)
	a := b.days("")
	status, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil {
		t.Fatal(err)
	}
	doc := b.mustRun(RunRequest{RunID: status.PipelineRunID})
	if doc.RunDate != "2026-09-01" || doc.PreviousRunID != nil || a.took() != "01" {
		t.Errorf("run: %+v", doc)
	}
	if got := daysOfRuns(b.mustBackfill("2026-09-01:2026-09-02")); got != "01=SUCCESS 02=SUCCESS" || a.took() != "02" {
		t.Errorf("days: %s", got)
	}
}

// TestDrainedBackfill: one interrupt ends the backfill between two days, and the same command goes on with the next one.
func TestDrainedBackfill(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	release := make(chan struct{})
	b.script.on("a", until(release))
	e := b.engine()
	ended := make(chan error)
	go func() {
		_, err := e.Backfill(context.Background(), RunRequest{Pipeline: "SALES", Backfill: "2026-09-01:2026-09-03", Reason: "r"})
		ended <- err
	}()
	<-b.script.started
	close(b.stop)
	close(release)
	wantCode(t, <-ended, fault.Interrupted, "--backfill 2026-09-02:2026-09-03")
	b.stop = make(chan struct{})
	a := b.days("")
	doc := b.mustBackfill("2026-09-01:2026-09-03")
	if got := daysOfRuns(doc); got != "01=SUCCESS 02=SUCCESS 03=SUCCESS" || a.took() != "02 03" {
		t.Errorf("days: %s", got)
	}
}

// TestBackfillIsRefused: while another run of the pipeline is unfinished, and while it is paused.
func TestBackfillIsRefused(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	doc := b.mustRun(RunRequest{Task: "a", RunDate: "2026-09-01"})
	_, err := b.backfill("2026-09-01:2026-09-02")
	wantCode(t, err, fault.RunActive, fmt.Sprint("--run-id ", doc.PipelineRunID))
	b.mustRun(RunRequest{RunID: doc.PipelineRunID})

	_, err = b.store.Backend().Writer.Exec("INSERT INTO AUD_PIPELINE_PAUSES (PIPELINE_ID, PAUSED_BY, PAUSED_BY_KIND, REASON) SELECT PIPELINE_ID, 'ops', 'HUMAN', 'move' FROM CFG_PIPELINES")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.backfill("2026-09-01:2026-09-02")
	wantCode(t, err, fault.Paused, "ops", "hint: etl-craft resume --pipeline SALES && etl-craft run --pipeline SALES --backfill 2026-09-01:2026-09-02 ")
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "1" {
		t.Errorf("runs: %s", got)
	}
}

// TestBackfillMeetsCancel: a day that is cancelled stops the backfill, which then starts anew.
func TestBackfillMeetsCancel(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	b.script.on("a", func(_ context.Context, a *handlers.Attempt) (handlers.Result, error) {
		_, err := b.store.Backend().Writer.Exec(`UPDATE AUD_PIPELINES_RUN_LOG SET STATUS = 'CANCELLED', OWNER_ID = NULL, LEASE_EXPIRES_AT = NULL,
			END_DATE = START_DATE WHERE PIPELINE_RUN_ID = ?`, a.PipelineRunID)
		return wrote(1), err
	})
	doc, err := b.backfill("2026-09-01:2026-09-02")
	if err == nil || doc == nil || daysOfRuns(doc) != "01=CANCELLED" || *doc.StoppedAt != "2026-09-01" {
		t.Fatalf("%v %+v", err, doc)
	}
	a := b.days("")
	if got := daysOfRuns(b.mustBackfill("2026-09-01:2026-09-02")); got != "01=SUCCESS 02=SUCCESS" || a.took() != "01 02" {
		t.Errorf("days: %s", got)
	}
}

// TestBackfillAsksNoGates: dependencies on other pipelines count as met, FAILURE excepted, and nothing is used up; nobody
// else sees its runs.
func TestBackfillAsksNoGates(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "load:")
	b.applyTo("SALES", "depends_on: [{pipeline: RAW, on: HAS_DATA}]\n", "a: RAW.load", "data: {task: RAW.load, on: HAS_DATA}",
		"always: {task: RAW.load, on: ALWAYS}", "alert: {task: RAW.load, on: FAILURE}")
	b.applyTo("MART", "depends_on: [SALES]\n", "m:")
	doc := b.mustBackfill("2026-09-01:2026-09-01")
	wantStates(t, doc.Runs[0], store.Success, "a=SUCCESS data=SUCCESS always=SUCCESS alert=SKIPPED/GATE_REFUSED")
	if got := b.value("SELECT COUNT(*) FROM AUD_DEPENDENCY_CONSUMPTION"); got != "0" {
		t.Errorf("consumptions: %s", got)
	}
	_, err := b.run(RunRequest{Pipeline: "MART"})
	wantCode(t, err, fault.NotReady)
	// The rerun of one of its tasks asks none either.
	b.mustRun(RunRequest{Task: "data", RunID: doc.Runs[0].PipelineRunID, Rerun: true, Reason: "r"})
}
