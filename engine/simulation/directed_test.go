package simulation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
)

// task is a task of a directed play, which depends on others on SUCCESS.
func task(code, params string, ups ...string) store.DesiredTask {
	t := store.DesiredTask{Code: code, Type: "ETL", Handler: "SIM", Params: map[string]string{"X_WORK": "2s", "X_OUTCOME": "success"}}
	for _, p := range strings.Split(params, ", ") {
		if name, value, ok := strings.Cut(p, "="); ok {
			t.Params[name] = value
		}
	}
	for _, up := range ups {
		t.DependsOn = append(t.DependsOn, store.DesiredTaskEdge{Task: up, Type: store.OnSuccess, Match: store.MatchNewest, ConsumeRepairs: true})
	}
	return t
}

func runs(at time.Duration, request engine.RunRequest, f fate) planned {
	request.Pipeline = "A"
	return planned{at, command{run: &request}, f}
}

func operate(at time.Duration, operator string, request engine.OperatorRequest, f fate) planned {
	request.Pipeline, request.Reason = "A", "because"
	return planned{at, command{operator: operator, request: request}, f}
}

// TestDirected plays what once went wrong.
func TestDirected(t *testing.T) {
	never := 10 * time.Minute
	for _, c := range []struct {
		name     string
		tasks    []store.DesiredTask
		commands []planned
		results  string // of the processes
		states   string // of the newest run's tasks, when all is done
		trace    string // a line of it, "" for any
	}{
		{
			"a retry is due while every place is taken",
			[]store.DesiredTask{task("a", "X_OUTCOME=deadlock success, RETRIES=1, RETRY_DELAY_SECONDS=1"), task("b", "X_WORK=20s")},
			[]planned{runs(1, engine.RunRequest{}, fate{})},
			"OK", "a=SUCCESS b=SUCCESS", "",
		},
		{
			"a person takes away what a task has run for, before its retry",
			[]store.DesiredTask{task("a", ""), task("b", "X_WORK=10s, X_OUTCOME=deadlock success, RETRIES=1, RETRY_DELAY_SECONDS=0", "a")},
			[]planned{runs(1, engine.RunRequest{}, fate{}), operate(6*time.Second, "mark", engine.OperatorRequest{Task: "a", Status: store.Skipped}, fate{})},
			"OK OK", "a=SKIPPED/OPERATOR b=SKIPPED/CONDITION_UNMET", "",
		},
		{
			"a process wakes up in a run that is not its own any more",
			[]store.DesiredTask{task("a", "X_OUTCOME=deadlock success, RETRIES=1, RETRY_DELAY_SECONDS=30")},
			[]planned{
				runs(1, engine.RunRequest{}, fate{freezeAt: 10 * time.Second, freezeFor: 90 * time.Second}),
				operate(80*time.Second, "reconcile", engine.OperatorRequest{}, fate{}),
			},
			"RUN_OWNED OK", "a=SUCCESS", "",
		},
		{
			"another process runs the task while the warehouse takes its time",
			[]store.DesiredTask{task("a", ""), task("b", "X_WORK=60s")},
			[]planned{
				runs(1, engine.RunRequest{Task: "b"}, fate{dieAt: 5 * time.Second}),
				runs(6*time.Second, engine.RunRequest{Task: "a"}, fate{warehouse: 30 * time.Second}),
				runs(7*time.Second, engine.RunRequest{Task: "a"}, fate{}),
			},
			"dead TASK_STATE OK", "a=SUCCESS b=SUCCESS", "",
		},
		{
			"cancel dies before the one that it has cancelled",
			[]store.DesiredTask{task("a", "X_WORK=20s")},
			[]planned{
				runs(1, engine.RunRequest{}, fate{freezeAt: 5 * time.Second, freezeFor: never, dieAt: 30 * time.Second}),
				operate(6*time.Second, "cancel", engine.OperatorRequest{}, fate{dieAt: 10 * time.Second}),
				runs(40*time.Second, engine.RunRequest{}, fate{}),
			},
			"dead dead OK", "a=SUCCESS", "p3    attempt 1 of 1001: RUNNING→LOST",
		},
		{
			"a failed task gets another attempt when all others have ended",
			[]store.DesiredTask{task("a", "X_WORK=20s, X_OUTCOME=division success"), task("b", "", "a"), task("c", "X_WORK=40s")},
			[]planned{
				runs(1, engine.RunRequest{}, fate{dieAt: 30 * time.Second}),
				runs(40*time.Second, engine.RunRequest{Task: "c"}, fate{}),
				runs(65*time.Second, engine.RunRequest{Task: "a"}, fate{}),
			},
			"dead OK OK", "a=SUCCESS b=SUCCESS c=SUCCESS", "",
		},
		{
			"the rest of a run is skipped that has worked on an upstream run",
			[]store.DesiredTask{task("a", ""), task("b", "X_WORK=60s", "a")},
			[]planned{
				{1, command{run: &engine.RunRequest{Pipeline: "UP"}}, fate{}},
				runs(20*time.Second, engine.RunRequest{}, fate{dieAt: 20 * time.Second}),
				operate(60*time.Second, "skip", engine.OperatorRequest{}, fate{}),
				runs(70*time.Second, engine.RunRequest{}, fate{}),
			},
			"OK dead OK NOT_READY", "a=SUCCESS b=SKIPPED/OPERATOR", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t, newTestTemplate(t))
			p := play{begins: time.Hour, commands: c.commands, pipelines: []store.DesiredPipeline{
				{Code: "A", Name: "A", RefreshType: "FULL", Origin: "file pipelines/A.yml", Tasks: c.tasks}}}
			if first := c.commands[0].command.run; first.Pipeline == "UP" {
				p.pipelines[0].DependsOn = []store.DesiredPipelineEdge{{Pipeline: "UP", Type: store.OnSuccess, ConsumeRepairs: true}}
				p.pipelines = append([]store.DesiredPipeline{{Code: "UP", Name: "UP", RefreshType: "FULL", Origin: "file pipelines/UP.yml",
					Tasks: []store.DesiredTask{task("u", "")}}}, p.pipelines...)
			}
			p.config = config.Orchestration{Mode: config.Local, MaxParallelTasks: 2, DependencyGates: config.GatesEnforce, TargetCount: config.CountExact}
			if len(c.commands) == 1 {
				p.config.MaxParallelTasks = 1
			}
			trace, broken := playOut(t, db, 1, p, func(w *world) {
				var results []string
				for _, process := range w.processes[:len(c.commands)] {
					results = append(results, process.result())
				}
				if got := strings.Join(results, " "); got != c.results {
					t.Errorf("the processes ended %s, want %s", got, c.results)
				}
				if got := w.newestStates(); got != c.states {
					t.Errorf("the tasks are %s, want %s", got, c.states)
				}
			})
			if !strings.Contains(trace, c.trace) {
				t.Errorf("the trace does not say %q", c.trace)
			}
			for _, b := range broken {
				t.Error(b)
			}
			if t.Failed() {
				t.Log("\n" + trace)
			}
		})
	}
}

// newestStates is "a=SUCCESS b=SKIPPED/OPERATOR".
func (w *world) newestStates() string {
	var states []string
	for _, row := range w.db.ask(`SELECT t.TASK_CODE, l.STATUS, COALESCE('/' || l.SKIP_REASON, '') FROM AUD_TASK_RUN_LOG l
JOIN CFG_TASKS t ON t.TASK_ID = l.TASK_ID
WHERE l.PIPELINE_RUN_ID = (SELECT MAX(PIPELINE_RUN_ID) FROM AUD_PIPELINES_RUN_LOG) ORDER BY l.TASK_ID`) {
		states = append(states, fmt.Sprintf("%s=%s%s", row[0], row[1], row[2]))
	}
	return strings.Join(states, " ")
}
