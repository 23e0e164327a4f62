package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (b *bench) check(req RunRequest) (*CheckDocument, error) {
	b.t.Helper()
	if req.Pipeline == "" {
		req.Pipeline = "SALES"
	}
	return b.engine().Check(context.Background(), req)
}

// wantAnswer checks answer, error and exit code, which must agree.
func (b *bench) wantAnswer(req RunRequest, answer, reason string) *CheckDocument {
	b.t.Helper()
	doc, err := b.check(req)
	if doc == nil {
		b.t.Fatalf("%+v: %v", req, err)
	}
	exit := map[string]int{AnswerRun: 0, AnswerWait: 7, AnswerSkip: 99}[answer]
	got := ""
	if doc.SkipReason != nil {
		got = *doc.SkipReason
	}
	if doc.Answer != answer || got != reason || fault.ExitCode(err) != exit || (doc.Message == nil) != (exit == 0) {
		b.t.Errorf("%s: %s %q, exit %d (%v), want %s %q", req.Task, doc.Answer, got, fault.ExitCode(err), err, answer, reason)
	}
	return doc
}

// untouched fails the test when do changes anything in the Engine DB.
func (b *bench) untouched(do func()) {
	b.t.Helper()
	state := func() string {
		var all []string
		for _, table := range []string{"AUD_PIPELINES_RUN_LOG", "AUD_TASK_RUN_LOG", "AUD_TASK_ATTEMPTS", "AUD_ACTIONS", "AUD_GATE_DECISIONS", "AUD_GATE_WAITS"} {
			all = append(all, b.value("SELECT count(*) || ' ' || COALESCE(max(rowid), 0) FROM "+table))
		}
		return strings.Join(append(all, b.value("SELECT COALESCE(group_concat(STATUS || UPDATED_DATE), '') FROM (SELECT STATUS, COALESCE(END_DATE, START_DATE) AS UPDATED_DATE FROM AUD_TASK_RUN_LOG ORDER BY TASK_RUN_ID)")), "|")
	}
	before := state()
	do()
	if after := state(); after != before {
		b.t.Errorf("a check changed the Engine DB:\n%s\n%s", before, after)
	}
}

const mixed = "{ task: bad, on: FAILURE }"

func TestCheckRemote(t *testing.T) {
	b := newRemote(t)
	b.apply("good:", "empty:", "bad:", "behind: bad", "mixed: good, "+mixed, "data: { task: good, on: HAS_DATA }", "nodata: { task: empty, on: HAS_DATA }",
		"after: nodata", "always: { task: behind, on: ALWAYS }", "two: good, empty, bad")
	b.script.on("empty", succeed(0))
	b.script.on("bad", fails)
	_, err := b.check(RunRequest{Task: "good", RunKey: "k"})
	wantCode(t, err, fault.RunNotFound, "k")
	_, err = b.check(RunRequest{Task: "good"})
	wantCode(t, err, fault.Usage, "--run-key")
	_, err = b.check(RunRequest{RunKey: "k"})
	wantCode(t, err, fault.Usage, "--task")
	b.wantAnswer(RunRequest{InitOnly: true, RunKey: "k"}, AnswerRun, "")
	b.mustRun(RunRequest{InitOnly: true, RunKey: "k"})

	ask := func(task, answer, reason string) {
		t.Helper()
		b.untouched(func() { b.wantAnswer(RunRequest{Task: task, RunKey: "k"}, answer, reason) })
	}
	ask("good", AnswerRun, "")
	ask("data", AnswerWait, "")
	b.mustRun(RunRequest{Task: "good", RunKey: "k"})
	b.mustRun(RunRequest{Task: "empty", RunKey: "k"})
	ask("mixed", AnswerWait, "")
	_, err = b.run(RunRequest{Task: "bad", RunKey: "k"})
	wantCode(t, err, fault.RunFailed)
	for _, c := range [][3]string{
		{"good", AnswerRun, ""}, // again, because the orchestrator asks
		{"bad", AnswerRun, ""},
		{"mixed", AnswerRun, ""},
		{"data", AnswerRun, ""},
		{"nodata", AnswerSkip, store.SkipCondition},
		{"after", AnswerSkip, store.SkipCondition},
		{"behind", AnswerSkip, store.SkipUpstream},
		{"always", AnswerRun, ""},
		{"two", AnswerSkip, store.SkipUpstream},
	} {
		ask(c[0], c[1], c[2])
	}
	b.wantAnswer(RunRequest{InitOnly: true, RunKey: "k"}, AnswerRun, "")
}

// TestCheckRunning: a task that runs is not to be started again, unless its process is gone; for the tasks behind it that
// is a failure, as it will be when the run ends.
func TestCheckRunning(t *testing.T) {
	b := newRemote(t)
	b.apply("a:", "b: { task: a, on: FAILURE }")
	b.mustRun(RunRequest{InitOnly: true, RunKey: "k"})
	release := make(chan struct{})
	b.script.on("a", until(release))
	err := b.interrupt(RunRequest{Task: "a", RunKey: "k"}, func(func()) {
		b.untouched(func() {
			_, err := b.check(RunRequest{Task: "a", RunKey: "k"})
			wantCode(t, err, fault.TaskState, "is running")
			b.wantAnswer(RunRequest{Task: "b", RunKey: "k"}, AnswerWait, "")
		})
		close(release)
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	second := b.mustRun(RunRequest{FinalizeOnly: true, RunKey: "k"})
	wantStates(t, second, store.Success, "a=SUCCESS b=SKIPPED/ORCHESTRATOR")
	third := b.mustRun(RunRequest{InitOnly: true, RunKey: "k2"})
	if _, err := b.store.StartAttempt(context.Background(), store.StartAttempt{TaskRunID: third.Tasks[0].TaskRunID, Owner: "gone:1:x", Actor: tester}); err != nil {
		t.Fatal(err)
	}
	b.untouched(func() {
		b.wantAnswer(RunRequest{Task: "a", RunKey: "k2"}, AnswerRun, "")
		b.wantAnswer(RunRequest{Task: "b", RunKey: "k2"}, AnswerRun, "")
	})
}

func TestCheckLocal(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a", "c: { task: a, on: FAILURE }")
	b.untouched(func() {
		b.wantAnswer(RunRequest{Task: "a"}, AnswerRun, "")
		b.wantAnswer(RunRequest{Task: "b"}, AnswerWait, "")
		_, err := b.check(RunRequest{InitOnly: true, RunKey: "k"})
		wantCode(t, err, fault.WrongMode)
	})
	b.mustRun(RunRequest{Task: "a"})
	b.untouched(func() {
		b.wantAnswer(RunRequest{Task: "b"}, AnswerRun, "")
		b.wantAnswer(RunRequest{Task: "c"}, AnswerSkip, store.SkipCondition)
		_, err := b.check(RunRequest{Task: "a"})
		wantCode(t, err, fault.TaskState)
		_, err = b.check(RunRequest{Task: "nowhere"})
		wantCode(t, err, fault.TaskNotFound)
	})
}

// TestCheckGates: what other pipelines did decides; what one of them is doing is waited for.
func TestCheckGates(t *testing.T) {
	b := newRemote(t)
	b.change = func(c *config.Config) {
		c.Orchestration.Mode, c.Orchestration.DependencyGates, c.Orchestration.GateWait = config.Remote, config.GatesEnforce, 1
	}
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", "depends_on: [RAW]\n", "a: RAW.x", "b: { task: RAW.x, on: FAILURE }", "behind: b", "always: { task: b, on: ALWAYS }")
	b.untouched(func() { b.wantAnswer(RunRequest{InitOnly: true, RunKey: "k"}, AnswerWait, "") })
	b.mustRun(RunRequest{Pipeline: "RAW", InitOnly: true, RunKey: "r"})
	b.mustRun(RunRequest{InitOnly: true, RunKey: "k"}) // which an orchestrator may, gates or not
	b.untouched(func() { b.wantAnswer(RunRequest{Task: "a", RunKey: "k"}, AnswerWait, "") })
	b.mustRun(RunRequest{Pipeline: "RAW", Task: "x", RunKey: "r"})
	b.mustRun(RunRequest{Pipeline: "RAW", FinalizeOnly: true, RunKey: "r"})
	b.untouched(func() {
		b.wantAnswer(RunRequest{Task: "a", RunKey: "k"}, AnswerRun, "")
		b.wantAnswer(RunRequest{Task: "b", RunKey: "k"}, AnswerSkip, store.SkipGate)
		b.wantAnswer(RunRequest{Task: "behind", RunKey: "k"}, AnswerSkip, store.SkipCondition)
		b.wantAnswer(RunRequest{Task: "always", RunKey: "k"}, AnswerRun, "") // b will not run, which nobody has recorded
		b.wantAnswer(RunRequest{InitOnly: true, RunKey: "k2"}, AnswerRun, "")
	})
}

// TestRemoteInParallel: an orchestrator may call the same thing twice at once, or several tasks.
func TestRemoteInParallel(t *testing.T) {
	b := newRemote(t)
	b.apply("a:", "b:", "c:", "d:")
	at := func(reqs ...RunRequest) []error {
		errs := make([]error, len(reqs))
		engines := make([]*Engine, len(reqs))
		for i := range reqs {
			reqs[i].Pipeline, reqs[i].RunKey = "SALES", "k"
			engines[i] = b.engine()
		}
		var all sync.WaitGroup
		for i := range reqs {
			all.Go(func() { _, errs[i] = engines[i].Run(context.Background(), reqs[i]) })
		}
		all.Wait()
		return errs
	}
	tasks := []RunRequest{{Task: "a"}, {Task: "b"}, {Task: "c"}, {Task: "d"}}
	for round := range 3 {
		for i, err := range at(RunRequest{InitOnly: true}, RunRequest{InitOnly: true}, RunRequest{InitOnly: true}) {
			if err != nil {
				t.Errorf("round %d, init %d: %v", round, i, err)
			}
		}
		if n := b.value("SELECT count(*) FROM AUD_PIPELINES_RUN_LOG"); n != "1" {
			t.Errorf("round %d: %s runs", round, n)
		}
		if round == 1 {
			b.script.on("d", fails)
		} else {
			b.script.on("d", succeed(1))
		}
		for i, err := range at(tasks...) { // the second and third time the run has ended, and all of them reopen it
			if (err == nil) == (round == 1 && i == 3) {
				t.Errorf("round %d, task %d: %v", round, i, err)
			}
		}
		for i, err := range at(RunRequest{FinalizeOnly: true}, RunRequest{FinalizeOnly: true}) {
			if (err == nil) == (round == 1) {
				t.Errorf("round %d, finalize %d: %v", round, i, err)
			}
		}
		doc, err := b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES", RunKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		want := store.Success
		if round == 1 {
			want = store.Failed
		}
		if doc.Status != want || fmt.Sprint(doc.Tasks[0].Attempts) != fmt.Sprint(round+1) {
			t.Errorf("round %d: %s, %d attempts of a", round, doc.Status, doc.Tasks[0].Attempts)
		}
	}
}
