package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// ran says which tasks ran since it was asked last.
func (b *bench) ran() string {
	b.script.mu.Lock()
	defer b.script.mu.Unlock()
	ran := strings.Join(b.script.ran, " ")
	b.script.ran = nil
	return ran
}

// interventions are those of a run, the oldest first.
func (b *bench) interventions(runID int64) string {
	b.t.Helper()
	return b.value(`SELECT COALESCE(group_concat(x, '; '), '') FROM (
		SELECT i.ACTION || COALESCE(' ' || t.TASK_CODE, '') || ' ' || COALESCE(i.FROM_STATUS, '-') || ' ' || COALESCE(i.TO_STATUS, '-') || ' ' || i.REASON AS x
		FROM AUD_RUN_INTERVENTIONS i LEFT JOIN CFG_TASKS t ON t.TASK_ID = i.TASK_ID
		WHERE i.PIPELINE_RUN_ID = ? ORDER BY i.INTERVENTION_ID)`, runID)
}

// revision is the run's OUTPUT_REVISION, with a + while a repair is under way.
func (b *bench) revision(runID int64) string {
	b.t.Helper()
	return b.value("SELECT OUTPUT_REVISION || CASE REPAIR_PENDING WHEN 'Y' THEN '+' ELSE '' END FROM AUD_PIPELINES_RUN_LOG WHERE PIPELINE_RUN_ID = ?", runID)
}

// TestAgainUsage: which flags go together, and which need a reason.
func TestAgainUsage(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	for words, req := range map[string]RunRequest{
		"needs --reason":            {Force: true},
		"--rerun needs --reason":    {Task: "a", Rerun: true, Reason: " "},
		"--ignore-dependencies nee": {Task: "a", IgnoreDependencies: true},
		"--backfill needs --reason": {Backfill: "2026-09-01:2026-09-02"},
		"--rerun needs --task":      {Rerun: true, Reason: "r"},
		"dependencies needs --task": {IgnoreDependencies: true, Reason: "r"},
		"needs --rerun":             {Task: "a", WithDownstream: true},
		"--with-downstream needs":   {Task: "a", Force: true, WithDownstream: true, Reason: "r"},
		"--reason is for":           {Reason: "r"},
		"--rerun and --ignore-depe": {Task: "a", Rerun: true, IgnoreDependencies: true, Reason: "r"},
		"--force and --rerun":       {Task: "a", Rerun: true, Force: true, Reason: "r"},
		"--force and --ignore":      {Task: "a", IgnoreDependencies: true, Force: true, Reason: "r"},
		"--force and --backfill":    {Force: true, Backfill: "2026-09-01:2026-09-02", Reason: "r"},
		"--force excludes --init":   {Force: true, InitOnly: true, RunKey: "k", Reason: "r"},
		"--force excludes --in":     {Force: true, FinalizeOnly: true, RunKey: "k", Reason: "r"},
		"--backfill excludes --ini": {Backfill: "2026-09-01:2026-09-02", InitOnly: true, Reason: "r"},
		"excludes --task":           {Backfill: "2026-09-01:2026-09-02", Task: "a", Reason: "r"},
		"excludes --run-id":         {Backfill: "2026-09-01:2026-09-02", RunID: 7, Reason: "r"},
		"excludes --run-key":        {Backfill: "2026-09-01:2026-09-02", RunKey: "k", Reason: "r"},
		"excludes --run-date":       {Backfill: "2026-09-01:2026-09-02", RunDate: "2026-09-01", Reason: "r"},
		"is not two dates":          {Backfill: "2026-09-01", Reason: "r"},
		"2026-02-30\" is not two":   {Backfill: "2026-02-01:2026-02-30", Reason: "r"},
		"before it begins":          {Backfill: "2026-09-02:2026-09-01", Reason: "r"},
		"more than 366 days":        {Backfill: "2026-01-01:2027-01-02", Reason: "r"},
	} {
		_, err := b.run(req)
		wantCode(t, err, fault.Usage, words)
	}
	for _, req := range []RunRequest{{Backfill: "2024-01-01:2024-12-31", Reason: "r"}, {Backfill: "2026-09-01:2026-09-01", Reason: "r"}} {
		req.Pipeline = "SALES"
		if err := req.check(); err != nil {
			t.Error(err)
		}
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_ACTIONS WHERE COMMAND = 'run'"); got != "0" {
		t.Errorf("%s commands were recorded", got)
	}
}

// TestAgainIsNotForOrchestrators: an outside orchestrator decides itself what runs again.
func TestAgainIsNotForOrchestrators(t *testing.T) {
	b := newRemote(t)
	b.apply("a:")
	b.mustRun(RunRequest{InitOnly: true, RunKey: "k"})
	for _, req := range []RunRequest{
		{Force: true, RunKey: "k", Reason: "r"}, {Force: true, Task: "a", RunKey: "k", Reason: "r"}, {Rerun: true, Task: "a", RunKey: "k", Reason: "r"},
		{IgnoreDependencies: true, Task: "a", RunKey: "k", Reason: "r"},
	} {
		_, err := b.run(req)
		wantCode(t, err, fault.WrongMode)
	}
	_, err := b.backfill("2026-09-01:2026-09-02")
	wantCode(t, err, fault.WrongMode)
}

// againTable is what becomes of the task b, which waits for a and is waited for by c, by its status in an unfinished run.
var againTable = []struct {
	status string // of b, before
	flag   string
	code   fault.Code // of the refusal, "" when b runs
	ran    string
	tasks  string // afterwards
}{
	{store.Pending, "", fault.NotReady, "", "a=PENDING b=PENDING c=PENDING open=PENDING"},
	{store.Pending, "rerun", fault.TaskState, "", "a=PENDING b=PENDING c=PENDING open=PENDING"},
	{store.Pending, "force", "", "b", "a=PENDING b=SUCCESS c=PENDING open=PENDING"},
	{store.Pending, "ignore", "", "b", "a=PENDING b=SUCCESS c=PENDING open=PENDING"},

	{store.InProgress, "", fault.TaskState, "", "a=SUCCESS b=IN_PROGRESS c=PENDING open=PENDING"},
	{store.InProgress, "rerun", fault.TaskState, "", "a=SUCCESS b=IN_PROGRESS c=PENDING open=PENDING"},
	{store.InProgress, "force", fault.TaskState, "", "a=SUCCESS b=IN_PROGRESS c=PENDING open=PENDING"},
	{store.InProgress, "ignore", fault.TaskState, "", "a=SUCCESS b=IN_PROGRESS c=PENDING open=PENDING"},

	{"dead", "", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{"dead", "rerun", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{"dead", "force", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{"dead", "ignore", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},

	{store.Success, "", fault.TaskState, "", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{store.Success, "rerun", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{store.Success, "force", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{store.Success, "ignore", fault.TaskState, "", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},

	{store.Failed, "", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{store.Failed, "rerun", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{store.Failed, "force", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},
	{store.Failed, "ignore", "", "b", "a=SUCCESS b=SUCCESS c=PENDING open=PENDING"},

	{store.Skipped, "", fault.TaskState, "", "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=PENDING open=PENDING"},
	{store.Skipped, "rerun", fault.NotReady, "", "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=PENDING open=PENDING"},
	{store.Skipped, "force", "", "b", "a=FAILED b=SUCCESS c=PENDING open=PENDING"},
	{store.Skipped, "ignore", fault.TaskState, "", "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=PENDING open=PENDING"},
}

func TestAgainTable(t *testing.T) {
	for _, c := range againTable {
		t.Run(c.status+" "+c.flag, func(t *testing.T) {
			b := newBench(t)
			b.apply("a:", "b: a", "c: b", "open:")
			run := b.prepare(c.status)
			b.ran()
			_, err := b.run(asked(c.flag, RunRequest{Task: "b", RunID: run}))
			if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil {
				t.Fatal(err)
			}
			if got := b.ran(); got != c.ran {
				t.Errorf("ran %q, want %q", got, c.ran)
			}
			doc, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES", RunID: run})
			if err != nil {
				t.Fatal(err)
			}
			wantStates(t, doc, store.InProgress, c.tasks)
			if c.code != "" && b.interventions(run) != "" {
				t.Errorf("a refused call was recorded as an intervention: %s", b.interventions(run))
			}
		})
	}
}

// prepare makes an unfinished run whose task b is in a status.
func (b *bench) prepare(status string) int64 {
	b.t.Helper()
	ctx := context.Background()
	if status == store.Skipped {
		b.script.on("a", fails)
		doc, err := b.run(RunRequest{Task: "a"})
		wantCode(b.t, err, fault.RunFailed)
		b.script.on("a", succeed(1))
		err = b.store.SkipTasks(ctx, doc.PipelineRunID, store.Claim{}, []store.Skip{{TaskRunID: doc.Tasks[1].TaskRunID, Reason: store.SkipUpstream, Message: "a failed"}})
		if err != nil {
			b.t.Fatal(err)
		}
		return doc.PipelineRunID
	}
	if status == store.Pending {
		g, err := b.store.Graph(ctx, "SALES")
		if err != nil {
			b.t.Fatal(err)
		}
		run, err := b.store.AdmitRun(ctx, store.NewRun{PipelineID: g.Pipeline.ID, Key: "k", Date: "2026-09-01", Trigger: store.TriggerManual, Actor: tester})
		if err != nil {
			b.t.Fatal(err)
		}
		return run.ID
	}
	doc := b.mustRun(RunRequest{Task: "a"})
	switch status {
	case store.Failed:
		b.script.on("b", fails)
		_, err := b.run(RunRequest{Task: "b"})
		wantCode(b.t, err, fault.RunFailed)
		b.script.on("b", succeed(1))
	case store.Success:
		b.mustRun(RunRequest{Task: "b"})
	default:
		owner := "gone:1:x"
		if status == store.InProgress {
			living := b.engine()
			if _, err := living.beAlive(ctx); err != nil {
				b.t.Fatal(err)
			}
			owner = living.id
		}
		if _, err := b.store.StartAttempt(ctx, store.StartAttempt{TaskRunID: doc.Tasks[1].TaskRunID, Owner: owner, Actor: tester}); err != nil {
			b.t.Fatal(err)
		}
	}
	return doc.PipelineRunID
}

func asked(flag string, req RunRequest) RunRequest {
	req.Force, req.Rerun, req.IgnoreDependencies = flag == "force", flag == "rerun", flag == "ignore"
	if flag != "" {
		req.Reason = "told to"
	}
	return req
}

// TestAgainInEndedRuns: an ended run is reopened for one task, and ends anew unless something is left in it.
func TestAgainInEndedRuns(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: b", "calm: {task: a, on: FAILURE}")
	done := b.mustRun(RunRequest{RunDate: "2026-09-01"})
	b.ran()

	_, err := b.run(RunRequest{Task: "b", Rerun: true, Reason: "r"})
	wantCode(t, err, fault.RunNotFound, "no unfinished run")
	_, err = b.run(RunRequest{Task: "b", Rerun: true, RunKey: "nobody", Reason: "r"})
	wantCode(t, err, fault.RunNotFound, "nobody")
	_, err = b.run(RunRequest{Task: "b", IgnoreDependencies: true, RunID: done.PipelineRunID, Reason: "r"})
	wantCode(t, err, fault.RunEnded, "--force")
	_, err = b.run(RunRequest{Task: "b", RunID: done.PipelineRunID})
	wantCode(t, err, fault.TaskState, "--rerun --reason")

	b.script.on("b", succeed(9))
	doc := b.mustRun(RunRequest{Task: "b", Rerun: true, RunID: done.PipelineRunID, Reason: "late rows"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS calm=SKIPPED/CONDITION_UNMET")
	if task := doc.Tasks[1]; task.Attempts != 2 || *task.RowsWritten != 9 || task.TaskRunID != done.Tasks[1].TaskRunID {
		t.Errorf("task: %+v", task)
	}
	if got := b.ran(); got != "b" {
		t.Errorf("ran %s", got)
	}
	if got := b.revision(doc.PipelineRunID); got != "2" {
		t.Errorf("revision %s", got)
	}
	if got := b.interventions(doc.PipelineRunID); got != "REOPEN SUCCESS IN_PROGRESS late rows; RERUN b SUCCESS PENDING late rows" {
		t.Errorf("interventions: %s", got)
	}

	b.script.on("b", fails)
	doc, err = b.run(RunRequest{Task: "b", Force: true, RunID: done.PipelineRunID, Reason: "r"})
	wantCode(t, err, fault.RunFailed, "division")
	wantStates(t, doc, store.Failed, "a=SUCCESS b=FAILED c=SUCCESS calm=SKIPPED/CONDITION_UNMET")
	if got := b.revision(doc.PipelineRunID); got != "2+" {
		t.Errorf("revision %s", got)
	}
	b.script.on("b", succeed(1))
	doc = b.mustRun(RunRequest{RunID: done.PipelineRunID})
	if got := b.revision(doc.PipelineRunID); got != "3" {
		t.Errorf("revision %s", got)
	}
	b.ran()
	doc = b.mustRun(RunRequest{Task: "calm", Force: true, RunID: done.PipelineRunID, Reason: "r"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS calm=SUCCESS")
}

// TestRerunLetsSkippedTasksRun: what was skipped because of a task waits again when that task is repaired, and with
// --with-downstream it runs at once.
func TestRerunLetsSkippedTasksRun(t *testing.T) {
	for _, flag := range []string{"", "downstream"} {
		b := newBench(t)
		b.apply("a:", "b: a", "c: b", "data: {task: a, on: HAS_DATA}", "other:", "end: other, c")
		b.script.on("a", fails)
		failed, _ := b.run(RunRequest{})
		wantStates(t, failed, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=SKIPPED/UPSTREAM_FAILED data=SKIPPED/UPSTREAM_FAILED other=SUCCESS end=SKIPPED/UPSTREAM_FAILED")
		b.ran()
		b.script.on("a", succeed(0))
		req := RunRequest{Task: "a", RunID: failed.PipelineRunID, Rerun: true, WithDownstream: flag != "", Reason: "r"}
		doc := b.mustRun(req)
		if flag == "" {
			wantStates(t, doc, store.InProgress, "a=SUCCESS b=PENDING c=PENDING data=PENDING other=SUCCESS end=PENDING")
			doc = b.mustRun(RunRequest{})
		}
		wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS data=SKIPPED/CONDITION_UNMET other=SUCCESS end=SUCCESS")
		if got := b.ran(); got != "a b c end" {
			t.Errorf("%q: ran %s", flag, got)
		}
		if got := b.revision(doc.PipelineRunID); got != "2" {
			t.Errorf("revision %s", got)
		}
		// It fails again: everything is as it was.
		b.script.on("a", fails)
		doc, err := b.run(req)
		wantCode(t, err, fault.RunFailed)
		if flag == "" {
			wantStates(t, doc, store.Failed, "a=FAILED b=SUCCESS c=SUCCESS data=SKIPPED/UPSTREAM_FAILED other=SUCCESS end=SUCCESS")
		} else {
			wantStates(t, doc, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=SKIPPED/UPSTREAM_FAILED data=SKIPPED/UPSTREAM_FAILED other=SUCCESS end=SKIPPED/UPSTREAM_FAILED")
		}
	}
}

// TestRerunWithDownstream: only the tasks behind it run again, those that a person has skipped excepted, and what else
// waits in the run goes on waiting.
func TestRerunWithDownstream(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: b", "person: a", "other:", "both: c, other")
	run := b.mustRun(RunRequest{Task: "a"})
	b.mustRun(RunRequest{Task: "b"})
	b.mustRun(RunRequest{Task: "c"})
	if err := b.store.SkipTasks(context.Background(), run.PipelineRunID, store.Claim{}, []store.Skip{{TaskRunID: run.Tasks[3].TaskRunID, Reason: store.SkipOperator, Message: "no"}}); err != nil {
		t.Fatal(err)
	}
	b.ran()
	doc := b.mustRun(RunRequest{Task: "a", Rerun: true, WithDownstream: true, Reason: "r"})
	wantStates(t, doc, store.InProgress, "a=SUCCESS b=SUCCESS c=SUCCESS person=SKIPPED/OPERATOR other=PENDING both=PENDING")
	if got := b.ran(); got != "a b c" {
		t.Errorf("ran %s", got)
	}
	if got := b.value("SELECT COALESCE(OWNER_ID, '-') || REPAIR_PENDING FROM AUD_PIPELINES_RUN_LOG"); got != "-Y" {
		t.Errorf("owner and repair: %s", got)
	}
	b.script.on("b", fails)
	doc, err := b.run(RunRequest{Task: "a", Rerun: true, WithDownstream: true, Reason: "r"})
	wantCode(t, err, fault.RunFailed, "(b)", fmt.Sprint("--run-id ", run.PipelineRunID))
	wantStates(t, doc, store.InProgress, "a=SUCCESS b=FAILED c=SKIPPED/UPSTREAM_FAILED person=SKIPPED/OPERATOR other=PENDING both=PENDING")
	b.script.on("b", succeed(1))
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS person=SKIPPED/OPERATOR other=SUCCESS both=SUCCESS")
}

// TestInterruptedRerun: an interrupted rerun leaves a run that the usual command continues.
func TestInterruptedRerun(t *testing.T) {
	for i := range 4 {
		downstream, again := i&1 != 0, i&2 != 0
		b := newBench(t)
		b.apply("a:", "b: a")
		done := b.mustRun(RunRequest{})
		<-b.script.started
		<-b.script.started
		b.script.on("a", until(nil))
		rerun := RunRequest{Task: "a", RunID: done.PipelineRunID, Rerun: true, WithDownstream: downstream, Reason: "r"}
		err := b.interrupt(rerun, func(cancel func()) { cancel() }, 1)
		wantCode(t, err, fault.Interrupted, fmt.Sprint("--run-id ", done.PipelineRunID))
		b.script.on("a", succeed(1))
		req := RunRequest{}
		if again { // the same command goes on too
			req = rerun
		}
		doc := b.mustRun(req)
		wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS")
		want := 1
		if downstream {
			want = 2
		}
		if doc.PipelineRunID != done.PipelineRunID || doc.Tasks[0].Attempts != 3 || doc.Tasks[1].Attempts != want {
			t.Errorf("run: %+v", doc)
		}
	}
}

// TestForceWholeRun: which run is meant, and that all of it runs again.
func TestForceWholeRun(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "calm: {task: a, on: FAILURE}")
	first := b.mustRun(RunRequest{Force: true, RunDate: "2026-09-01", Reason: "first load"})
	wantStates(t, first, store.Success, "a=SUCCESS b=SUCCESS calm=SKIPPED/CONDITION_UNMET")
	if got := b.interventions(first.PipelineRunID); got != "NEW_RUN - IN_PROGRESS first load" {
		t.Errorf("interventions: %s", got)
	}
	b.ran()

	doc := b.mustRun(RunRequest{Force: true, RunID: first.PipelineRunID, Reason: "new rates"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS calm=SKIPPED/CONDITION_UNMET")
	if got := b.ran(); got != "a b" || doc.Tasks[0].Attempts != 2 || doc.PipelineRunID != first.PipelineRunID {
		t.Errorf("ran %s, run %+v", got, doc)
	}
	if got := b.revision(doc.PipelineRunID); got != "2" {
		t.Errorf("revision %s", got)
	}
	if got := b.interventions(first.PipelineRunID); !strings.HasSuffix(got, "REOPEN SUCCESS IN_PROGRESS new rates; RESET SUCCESS - new rates") {
		t.Errorf("interventions: %s", got)
	}

	second := b.mustRun(RunRequest{Force: true, Reason: "r"})
	if second.PipelineRunID == first.PipelineRunID {
		t.Error("an ended run was picked up")
	}
	b.ran()

	// An unfinished run is meant before a new one, and no other run follows it.
	b.mustRun(RunRequest{Task: "a", RunDate: "2026-09-02"})
	doc = b.mustRun(RunRequest{Force: true, Reason: "r"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS calm=SKIPPED/CONDITION_UNMET")
	if got := b.ran(); got != "a a b" || doc.RunDate != "2026-09-02" || doc.PreviousRunID != nil {
		t.Errorf("ran %s, run %+v", got, doc)
	}

	b.script.on("a", fails)
	failed, err := b.run(RunRequest{Force: true, RunID: doc.PipelineRunID, Reason: "r"})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, failed, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED calm=SUCCESS")
	b.script.on("a", succeed(1))

	if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_PIPELINES_RUN_LOG SET STATUS = 'CANCELLED' WHERE PIPELINE_RUN_ID = ?", failed.PipelineRunID); err != nil {
		t.Fatal(err)
	}
	for _, req := range []RunRequest{{Force: true}, {Force: true, Task: "a"}, {Rerun: true, Task: "a"}} {
		req.RunID, req.Reason = failed.PipelineRunID, "r"
		_, err = b.run(req)
		wantCode(t, err, fault.RunEnded, "cancelled")
	}
}

// TestForceMeetsALivingRunner: it is refused, and the runner is not disturbed.
func TestForceMeetsALivingRunner(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	release := make(chan struct{})
	b.script.on("a", until(release))
	err := b.interrupt(RunRequest{}, func(func()) {
		for _, req := range []RunRequest{{Force: true}, {Force: true, Task: "b"}, {IgnoreDependencies: true, Task: "b"}, {Rerun: true, Task: "b"}} {
			req.Reason = "r"
			_, err := b.run(req)
			wantCode(t, err, fault.RunOwned)
		}
		close(release)
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_RUN_INTERVENTIONS"); got != "0" {
		t.Errorf("interventions: %s", got)
	}
}

// TestAgainAndGates: --force and --ignore-dependencies ask no gates and use nothing up; a task that has used up its
// upstream may run again in the same run.
func TestAgainAndGates(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "load:")
	b.applyTo("SALES", "depends_on: [RAW]\n", "a:", "b: a, RAW.load")
	consumed := func(want string) {
		t.Helper()
		if got := b.value("SELECT COUNT(*) FROM AUD_DEPENDENCY_CONSUMPTION"); got != want {
			t.Errorf("%s consumptions, want %s", got, want)
		}
	}
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.NotReady)
	_, err = b.run(RunRequest{Task: "a"})
	wantCode(t, err, fault.NotReady)

	doc := b.mustRun(RunRequest{Force: true, Reason: "no raw data today"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS")
	consumed("0")
	if got := b.interventions(doc.PipelineRunID); strings.Count(got, "GATE_BYPASS") != 2 || !strings.Contains(got, "no raw data today") {
		t.Errorf("interventions: %s", got)
	}

	b.mustRun(RunRequest{Force: true, Task: "a", Reason: "r"}) // starts a run
	doc = b.mustRun(RunRequest{IgnoreDependencies: true, Task: "b", Reason: "r"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS")
	consumed("0")

	b.mustRun(RunRequest{Pipeline: "RAW"})
	doc = b.mustRun(RunRequest{})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS")
	consumed("2")
	for _, req := range []RunRequest{{Rerun: true, Task: "b"}, {Rerun: true, Task: "a", WithDownstream: true}} {
		req.RunID, req.Reason = doc.PipelineRunID, "r"
		wantStates(t, b.mustRun(req), store.Success, "a=SUCCESS b=SUCCESS")
		consumed("2")
	}
	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.NotReady) // RAW has been used up
}

// TestRerunKeepsConsumedSkips: what another pipeline has built on is not taken away from it.
func TestRerunKeepsConsumedSkips(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: a")
	b.applyTo("MART", "", "m: {task: SALES.b, on: ALWAYS}")
	b.script.on("a", fails)
	failed, _ := b.run(RunRequest{})
	wantStates(t, failed, store.Failed, "a=FAILED b=SKIPPED/UPSTREAM_FAILED c=SKIPPED/UPSTREAM_FAILED")
	b.mustRun(RunRequest{Pipeline: "MART"})
	b.script.on("a", succeed(1))
	doc := b.mustRun(RunRequest{Task: "a", Rerun: true, WithDownstream: true, RunID: failed.PipelineRunID, Reason: "r"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SKIPPED/UPSTREAM_FAILED c=SUCCESS")
}

// TestRerunsRace: of processes that ask for the same at once each is carried out or refused, and no two run the task at the
// same time.
func TestRerunsRace(t *testing.T) {
	for _, req := range []RunRequest{{Task: "b", Rerun: true}, {Task: "b", Rerun: true, WithDownstream: true}, {Task: "b", Force: true}, {Force: true}} {
		b := newBench(t)
		b.apply("a:", "b: a", "c: b")
		done := b.mustRun(RunRequest{})
		req.Pipeline, req.RunID, req.Reason = "SALES", done.PipelineRunID, "r"
		var running, most atomic.Int32
		b.script.on("b", func(context.Context, *handlers.Attempt) (handlers.Result, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			return wrote(1), nil
		})
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range errs {
			e := b.engine()
			all.Go(func() { _, errs[i] = e.Run(context.Background(), req) })
		}
		all.Wait()
		served := 0
		for _, err := range errs {
			switch {
			case err == nil:
				served++
			case fault.ExitCode(err) != 5 && fault.ExitCode(err) != 8:
				t.Errorf("%+v: %v", req, err)
			}
		}
		if most.Load() != 1 || served == 0 {
			t.Errorf("%+v: %d at once, %d served", req, most.Load(), served)
		}
		doc := b.mustRun(RunRequest{RunID: done.PipelineRunID})
		wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS")
		if doc.Tasks[1].Attempts < 1+served {
			t.Errorf("%+v: %d attempts, %d served", req, doc.Tasks[1].Attempts, served)
		}
	}
}

// TestBackfillsRace: two that start at once make one run per day.
func TestBackfillsRace(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i := range errs {
		e := b.engine()
		all.Go(func() {
			_, errs[i] = e.Backfill(context.Background(), RunRequest{Pipeline: "SALES", Backfill: "2026-09-01:2026-09-04", Reason: "r"})
		})
	}
	all.Wait()
	served := 0
	for _, err := range errs {
		switch {
		case err == nil:
			served++
		case fault.ExitCode(err) != 5:
			t.Error(err)
		}
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG WHERE STATUS <> 'SUCCESS'"); got != "0" {
		t.Errorf("%s runs did not end SUCCESS", got)
	}
	if got := b.value("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM AUD_PIPELINES_RUN_LOG GROUP BY RUN_DATE, substr(RUN_KEY, -36))"); got != "1" {
		t.Errorf("a backfill has %s runs of one day", got)
	}
	if served == 0 { // somebody was in everybody's way, and the same command goes on
		b.mustBackfill("2026-09-01:2026-09-04")
	}
}
