package engine

import (
	"context"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestOneTaskAtATime(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: b")
	_, err := b.run(RunRequest{Task: "b"})
	wantCode(t, err, fault.NotReady, "a on SUCCESS, which is PENDING")
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "0" {
		t.Fatalf("runs: %s", got)
	}
	_, err = b.run(RunRequest{Task: "bb"})
	wantCode(t, err, fault.TaskNotFound)

	first := b.mustRun(RunRequest{Task: "a"})
	wantStates(t, first, store.InProgress, "a=SUCCESS b=PENDING c=PENDING")
	_, err = b.run(RunRequest{Task: "a"})
	wantCode(t, err, fault.TaskState, "SUCCESS")
	_, err = b.run(RunRequest{Task: "c"})
	wantCode(t, err, fault.NotReady)

	b.script.on("b", fails)
	doc, err := b.run(RunRequest{Task: "b"})
	wantCode(t, err, fault.RunFailed, "division", "divide by something else")
	wantStates(t, doc, store.Failed, "a=SUCCESS b=FAILED c=SKIPPED/UPSTREAM_FAILED")

	b.script.on("b", succeed(1))
	doc = b.mustRun(RunRequest{Task: "b", RunID: doc.PipelineRunID})
	wantStates(t, doc, store.InProgress, "a=SUCCESS b=SUCCESS c=PENDING")
	doc = b.mustRun(RunRequest{Task: "c"})
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS c=SUCCESS")
	if doc.PipelineRunID != first.PipelineRunID {
		t.Error("the tasks ran in different runs")
	}
}

func TestFailedTaskOfAnUnfinishedRun(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b:", "after: {task: a, on: ALWAYS}", "lost: a", "end: {task: lost, on: ALWAYS}")
	b.script.on("a", fails)
	doc, err := b.run(RunRequest{Task: "a"})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.InProgress, "a=FAILED b=PENDING after=PENDING lost=PENDING end=PENDING")
	doc, _ = b.run(RunRequest{Task: "a"})
	if doc.Tasks[0].Attempts != 2 {
		t.Errorf("attempts: %d", doc.Tasks[0].Attempts)
	}
	doc = b.mustRun(RunRequest{Task: "end"})
	wantStates(t, doc, store.InProgress, "a=FAILED b=PENDING after=PENDING lost=SKIPPED/UPSTREAM_FAILED end=SUCCESS")
	_, err = b.run(RunRequest{Task: "lost"})
	wantCode(t, err, fault.TaskState)
	b.mustRun(RunRequest{Task: "after"})
	doc = b.mustRun(RunRequest{Task: "b"})
	wantStates(t, doc, store.Failed, "a=FAILED b=SUCCESS after=SUCCESS lost=SKIPPED/UPSTREAM_FAILED end=SUCCESS")
}

func TestTwoTasksInTwoProcesses(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b:")
	release := make(chan struct{})
	b.script.on("a", until(release))
	err := b.interrupt(RunRequest{Task: "a"}, func(func()) {
		_, err := b.run(RunRequest{Task: "a"})
		wantCode(t, err, fault.TaskState, "is running")
		wantStates(t, b.mustRun(RunRequest{Task: "b"}), store.InProgress, "a=IN_PROGRESS b=SUCCESS")
		_, err = b.run(RunRequest{})
		wantCode(t, err, fault.RunUnfinished)
		close(release)
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.Success, "a=SUCCESS b=SUCCESS")
}

func newRemote(t *testing.T) *bench {
	b := newBench(t)
	b.change = func(c *config.Config) { c.Orchestration.Mode = config.Remote }
	return b
}

func TestRemote(t *testing.T) {
	b := newRemote(t)
	b.apply("a:", "b: a", "c: b")
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.WrongMode)
	_, err = b.run(RunRequest{Task: "a", RunKey: "k"})
	wantCode(t, err, fault.RunNotFound, "k")
	_, err = b.run(RunRequest{FinalizeOnly: true, RunKey: "k"})
	wantCode(t, err, fault.RunNotFound)

	first := b.mustRun(RunRequest{InitOnly: true, RunKey: "k", RunDate: "2026-09-01"})
	wantStates(t, first, store.InProgress, "a=PENDING b=PENDING c=PENDING")
	if first.Trigger != store.TriggerOrchestrator || first.RunDate != "2026-09-01" {
		t.Errorf("run: %+v", first)
	}
	if again := b.mustRun(RunRequest{InitOnly: true, RunKey: "k"}); again.PipelineRunID != first.PipelineRunID {
		t.Error("a second init started a run")
	}
	b.mustRun(RunRequest{Task: "b", RunKey: "k"})
	doc := b.mustRun(RunRequest{Task: "b", RunKey: "k"})
	wantStates(t, doc, store.InProgress, "a=PENDING b=SUCCESS c=PENDING")
	if doc.Tasks[1].Attempts != 2 {
		t.Errorf("attempts: %d", doc.Tasks[1].Attempts)
	}
	doc = b.mustRun(RunRequest{FinalizeOnly: true, RunKey: "k"})
	wantStates(t, doc, store.Success, "a=SKIPPED/ORCHESTRATOR b=SUCCESS c=SKIPPED/ORCHESTRATOR")
	if again := b.mustRun(RunRequest{FinalizeOnly: true, RunKey: "k"}); again.Status != store.Success {
		t.Errorf("finalized twice: %+v", again)
	}

	b.script.on("c", fails)
	doc, err = b.run(RunRequest{Task: "c", RunKey: "k"})
	wantCode(t, err, fault.RunFailed, "division")
	wantStates(t, doc, store.InProgress, "a=SKIPPED/ORCHESTRATOR b=SUCCESS c=FAILED")
	doc, err = b.run(RunRequest{FinalizeOnly: true, RunKey: "k"})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=SKIPPED/ORCHESTRATOR b=SUCCESS c=FAILED")
}

func TestRemoteFinalizeWaitsForTheLivingOnly(t *testing.T) {
	b := newRemote(t)
	b.apply("a:", "b:")
	b.mustRun(RunRequest{InitOnly: true, RunKey: "k"})
	release := make(chan struct{})
	b.script.on("a", until(release))
	err := b.interrupt(RunRequest{Task: "a", RunKey: "k"}, func(func()) {
		_, err := b.run(RunRequest{FinalizeOnly: true, RunKey: "k"})
		wantCode(t, err, fault.RunUnfinished, "task a")
		close(release)
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES", RunKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	wantStates(t, doc, store.InProgress, "a=SUCCESS b=PENDING")
	rows, err := b.store.TaskRuns(context.Background(), doc.PipelineRunID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.StartAttempt(context.Background(), store.StartAttempt{TaskRunID: rows[1].ID, Owner: "gone:1:x", Actor: tester}); err != nil {
		t.Fatal(err)
	}
	doc, err = b.run(RunRequest{FinalizeOnly: true, RunKey: "k"})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=SUCCESS b=FAILED")
	if doc.Tasks[1].Error.Code != string(fault.AttemptLost) {
		t.Errorf("error: %+v", doc.Tasks[1].Error)
	}
}

func TestInterruptedRemoteTask(t *testing.T) {
	b := newRemote(t)
	b.apply("a:")
	b.mustRun(RunRequest{InitOnly: true, RunKey: "k"})
	b.script.on("a", until(nil))
	wantCode(t, b.interrupt(RunRequest{Task: "a", RunKey: "k"}, func(cancel func()) { cancel() }, 1), fault.Interrupted)
	doc, err := b.run(RunRequest{FinalizeOnly: true, RunKey: "k"})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=CANCELLED")
}

func TestUsage(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	for _, req := range []RunRequest{
		{RunID: 3, RunKey: "k"}, {RunDate: "1.9.2026"}, {InitOnly: true, FinalizeOnly: true}, {Task: "a", InitOnly: true},
	} {
		_, err := b.run(req)
		wantCode(t, err, fault.Usage)
	}
	_, err := b.run(RunRequest{InitOnly: true, RunKey: "k"})
	wantCode(t, err, fault.WrongMode)
}
