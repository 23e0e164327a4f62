package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func init() { gatePoll = 20 * time.Millisecond }

const onRaw = "depends_on: [{pipeline: RAW, on: SUCCESS}]\n"

// TestUpstreamRunIsUsedOnce: a run is chosen when the dependent starts and used up when that succeeds.
func TestUpstreamRunIsUsedOnce(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", onRaw, "a:")
	raw := b.mustRun(RunRequest{Pipeline: "RAW"})

	b.script.on("a", fails)
	failed, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	if got := b.value("SELECT COUNT(*) FROM AUD_DEPENDENCY_CONSUMPTION"); got != "0" {
		t.Errorf("a failed run used up %s", got)
	}
	b.script.on("a", succeed(1))
	b.mustRun(RunRequest{RunID: failed.PipelineRunID})
	if got := b.value("SELECT CONSUMED_PIPELINE_RUN_ID || '/' || CONSUMED_REVISION FROM AUD_DEPENDENCY_CONSUMPTION"); got != fmt.Sprintf("%d/1", raw.PipelineRunID) {
		t.Errorf("used up: %s", got)
	}
	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.NotReady, "RAW on SUCCESS: no run that succeeded since run")
	if got := b.value("SELECT RESULT FROM AUD_GATE_DECISIONS WHERE PIPELINE_RUN_ID IS NULL"); got != store.GateUnsatisfied {
		t.Errorf("the refusal is recorded as %s", got)
	}

	b.script.on("x", fails)
	_, err = b.run(RunRequest{Pipeline: "RAW"})
	wantCode(t, err, fault.RunFailed)
	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.NotReady)

	// A newer failure does not hide a success that nobody has used.
	b.script.on("x", succeed(1))
	b.mustRun(RunRequest{Pipeline: "RAW"})
	b.script.on("x", fails)
	_, err = b.run(RunRequest{Pipeline: "RAW"})
	wantCode(t, err, fault.RunFailed)
	b.mustRun(RunRequest{})
	_, err = b.run(RunRequest{})
	wantCode(t, err, fault.NotReady)
}

// TestRepairCountsAgain: an upstream run that is repaired after it was used, or before it ever counted.
func TestRepairCountsAgain(t *testing.T) {
	for _, c := range []struct {
		name, edge string
		again      bool
	}{
		{"by default", onRaw, true},
		{"not when the dependency says so", "depends_on: [{pipeline: RAW, on: SUCCESS, consume_repairs: false}]\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.applyTo("RAW", "", "x:")
			b.applyTo("SALES", c.edge, "a:")
			b.script.on("x", fails)
			old, err := b.run(RunRequest{Pipeline: "RAW", RunDate: "2026-09-01"})
			wantCode(t, err, fault.RunFailed)
			b.script.on("x", succeed(1))
			b.mustRun(RunRequest{Pipeline: "RAW", RunDate: "2026-09-02"})
			b.mustRun(RunRequest{})
			b.mustRun(RunRequest{Pipeline: "RAW", RunID: old.PipelineRunID})
			_, err = b.run(RunRequest{})
			if !c.again {
				wantCode(t, err, fault.NotReady)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := b.value("SELECT CONSUMED_PIPELINE_RUN_ID || '/' || CONSUMED_REVISION FROM AUD_DEPENDENCY_CONSUMPTION ORDER BY CONSUMPTION_ID DESC LIMIT 1"); got != fmt.Sprintf("%d/2", old.PipelineRunID) {
				t.Errorf("used up: %s", got)
			}
			_, err = b.run(RunRequest{})
			wantCode(t, err, fault.NotReady)
		})
	}
}

func TestGateOfTheSameDate(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", "depends_on: [{pipeline: RAW, on: SUCCESS, match: same_date}]\n", "a:")
	b.mustRun(RunRequest{Pipeline: "RAW", RunDate: "2026-09-02"})
	_, err := b.run(RunRequest{RunDate: "2026-09-03"})
	wantCode(t, err, fault.NotReady, "no run of 2026-09-03 that succeeded, and was not used")
	b.mustRun(RunRequest{Pipeline: "RAW", RunDate: "2026-09-03"})
	b.mustRun(RunRequest{RunDate: "2026-09-03"})
	b.mustRun(RunRequest{RunDate: "2026-09-02"}) // a later date's use does not use it up
	_, err = b.run(RunRequest{RunDate: "2026-09-02"})
	wantCode(t, err, fault.NotReady, "no run of 2026-09-02 that succeeded, and was not used")
}

// TestTaskGateOfTheSameDate is that of a task.
func TestTaskGateOfTheSameDate(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", "", "a: {task: RAW.x, on: SUCCESS, match: same_date}")
	for _, date := range []string{"2026-09-02", "2026-09-03"} {
		b.mustRun(RunRequest{Pipeline: "RAW", RunDate: date})
	}
	for _, c := range []struct{ date, status, task string }{{"2026-09-03", store.Success, "SUCCESS"}, {"2026-09-02", store.Success, "SUCCESS"},
		{"2026-09-02", store.Skipped, "SKIPPED/GATE_REFUSED"}, {"2026-09-01", store.Skipped, "SKIPPED/GATE_REFUSED"}} {
		wantStates(t, b.mustRun(RunRequest{RunDate: c.date}), c.status, "a="+c.task)
	}
}

// TestGateIsNotListenedTo: every bypass is recorded.
func TestGateIsNotListenedTo(t *testing.T) {
	for _, mode := range []string{config.GatesWarn, config.GatesOff} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			b.change = func(c *config.Config) { c.Orchestration.DependencyGates = mode }
			b.applyTo("RAW", "", "x:")
			b.applyTo("SALES", onRaw, "a:", "b: {task: RAW.x, on: SUCCESS}")
			wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS b=SUCCESS")
			if got := b.value("SELECT COUNT(*) FROM AUD_RUN_INTERVENTIONS WHERE ACTION = 'GATE_BYPASS'"); got != "2" {
				t.Errorf("%s interventions", got)
			}
			if got := b.value("SELECT COUNT(*) FROM AUD_DEPENDENCY_CONSUMPTION"); got != "0" {
				t.Errorf("%s used up", got)
			}
		})
	}
}

// TestWaitAtTheGate: a run, and a task of a run, wait while the upstream runs, and go on when it ends.
func TestWaitAtTheGate(t *testing.T) {
	for _, c := range []struct{ name, head, task string }{
		{"a run", onRaw, "a:"},
		{"a task", "", "a: {task: RAW.x, on: SUCCESS}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.change = func(c *config.Config) { c.Orchestration.GateWait = time.Minute }
			b.applyTo("RAW", "", "x:")
			b.applyTo("SALES", c.head, c.task)
			release := make(chan struct{})
			b.script.on("x", until(release))
			upstream, downstream := make(chan error), make(chan error)
			run := func(pipeline string, ended chan error) {
				_, err := b.engine().Run(context.Background(), RunRequest{Pipeline: pipeline})
				ended <- err
			}
			go run("RAW", upstream)
			<-b.script.started
			go run("SALES", downstream)
			for b.value("SELECT COALESCE(MAX(LOOKS), 0) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL") < "3" {
				time.Sleep(5 * time.Millisecond)
			}
			close(release)
			if err := <-upstream; err != nil {
				t.Fatal(err)
			}
			if err := <-downstream; err != nil {
				t.Fatal(err)
			}
			if got := b.value("SELECT COUNT(*) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL"); got != "0" {
				t.Errorf("%s waits are left", got)
			}
			if got := b.value("SELECT COUNT(*) FROM AUD_DEPENDENCY_CONSUMPTION"); got != "1" {
				t.Errorf("%s used up", got)
			}
		})
	}
}

// TestWaitAtTheGateEnds by its deadline, which a restart does not move, or by an interrupt.
func TestWaitAtTheGateEnds(t *testing.T) {
	b := newBench(t)
	b.change = func(c *config.Config) { c.Orchestration.GateWait = time.Second }
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", onRaw, "a:")
	release := make(chan struct{})
	b.script.on("x", until(release))
	upstream := make(chan error)
	go func() {
		_, err := b.engine().Run(context.Background(), RunRequest{Pipeline: "RAW"})
		upstream <- err
	}()
	<-b.script.started

	interruptedEngine := b.engine()
	stop := make(chan struct{})
	interruptedEngine.Stop = stop
	ended := make(chan error)
	go func() {
		_, err := interruptedEngine.Run(context.Background(), RunRequest{Pipeline: "SALES"})
		ended <- err
	}()
	for b.value("SELECT COUNT(*) FROM AUD_GATE_WAITS") == "0" {
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	wantCode(t, <-ended, fault.Interrupted)

	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.NotReady, "RAW is IN_PROGRESS")
	if got := b.value("SELECT COUNT(*) || ' ' || COUNT(NEXT_CHECK_AT) FROM AUD_GATE_WAITS"); got != "1 0" {
		t.Errorf("waits: %s", got)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); got != "1" {
		t.Errorf("runs: %s", got)
	}
	close(release)
	if err := <-upstream; err != nil {
		t.Fatal(err)
	}
	b.mustRun(RunRequest{})
}

// TestAnyGateIsEnough: a task that needs one of two upstreams does not wait for the other, and uses up only the one.
func TestAnyGateIsEnough(t *testing.T) {
	b := newBench(t)
	b.change = func(c *config.Config) { c.Orchestration.GateWait = time.Minute }
	b.applyTo("RAW", "", "x:")
	b.applyTo("OTHER", "", "y:")
	b.write("pipelines/SALES.yml", `
pipeline: SALES
name: Sales
refresh_type: FULL
tasks:
  - { task: a, handler: TEST, run_condition: ANY, depends_on: [{task: RAW.x, on: SUCCESS}, {task: OTHER.y, on: SUCCESS}] }
`)
	if _, err := b.engine().Apply(context.Background(), false); err != nil {
		t.Fatal(err, fault.As(err).Problems)
	}
	release := make(chan struct{})
	b.script.on("x", until(release))
	upstream := make(chan error)
	go func() {
		_, err := b.engine().Run(context.Background(), RunRequest{Pipeline: "RAW"})
		upstream <- err
	}()
	<-b.script.started
	b.mustRun(RunRequest{Pipeline: "OTHER"})
	wantStates(t, b.mustRun(RunRequest{}), store.Success, "a=SUCCESS")
	close(release)
	if err := <-upstream; err != nil {
		t.Fatal(err)
	}
	if got := b.value("SELECT COUNT(*) FROM AUD_DEPENDENCY_CONSUMPTION"); got != "1" {
		t.Errorf("%s used up", got)
	}
}

// TestTaskGateIsUsedByTheTask: what a task has worked on is used up even when the run fails later.
func TestTaskGateIsUsedByTheTask(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.apply("a: {task: RAW.x, on: SUCCESS}", "z:")
	b.script.on("z", fails)
	b.mustRun(RunRequest{Pipeline: "RAW"})
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=SUCCESS z=FAILED")
	doc, err = b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	wantStates(t, doc, store.Failed, "a=SKIPPED/GATE_REFUSED z=FAILED")
}
