package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
)

// play is what happens in a case: pipelines, and commands that processes are started with.
type play struct {
	pipelines []store.DesiredPipeline
	config    config.Orchestration
	begins    time.Duration // after midnight
	commands  []planned
}

type planned struct {
	at      time.Duration
	command command
	fate    fate
}

// newPlay makes up a case.
func newPlay(seed uint64) play {
	r := rand.New(rand.NewPCG(seed, 0))
	p := play{config: config.Orchestration{
		Mode: config.Local, MaxParallelTasks: 1 + r.IntN(3), GateWait: []time.Duration{0, 20 * time.Second, time.Minute}[r.IntN(3)],
		DependencyGates: config.GatesEnforce, TargetCount: config.CountExact,
	}}
	switch r.IntN(12) {
	case 0:
		p.config.DependencyGates = config.GatesWarn
	case 1:
		p.config.DependencyGates = config.GatesOff
	}
	if r.IntN(3) == 0 {
		p.config.LockWait = 5 * time.Second
	}
	p.begins = between(r, time.Hour, 2*time.Hour)
	if r.IntN(5) == 0 {
		p.begins = 24*time.Hour - between(r, time.Second, time.Minute)
	}
	for i := range 1 + r.IntN(3) {
		p.pipelines = append(p.pipelines, randomPipeline(r, string(rune('A'+i)), p.pipelines))
	}
	for range 3 + r.IntN(12) {
		p.commands = append(p.commands, randomCommand(r, p.pipelines))
	}
	return p
}

var types = []string{store.OnSuccess, store.OnSuccess, store.OnSuccess, store.OnFailure, store.OnAlways, store.OnHasData}

func match(r *rand.Rand) string {
	if r.IntN(4) == 0 {
		return store.MatchSameDate
	}
	return store.MatchNewest
}

func randomPipeline(r *rand.Rand, code string, earlier []store.DesiredPipeline) store.DesiredPipeline {
	p := store.DesiredPipeline{Code: code, Name: code, RefreshType: "FULL", Origin: "file pipelines/" + code + ".yml"}
	for _, up := range earlier {
		if r.IntN(4) == 0 {
			p.DependsOn = append(p.DependsOn, store.DesiredPipelineEdge{Pipeline: up.Code, Type: types[r.IntN(len(types))], Match: match(r), ConsumeRepairs: r.IntN(3) > 0})
		}
	}
	for i := range 1 + r.IntN(5) {
		t := store.DesiredTask{Code: fmt.Sprint("t", i+1), Type: "ETL", Handler: "SIM", Params: map[string]string{}}
		for _, up := range p.Tasks {
			if r.IntN(3) == 0 {
				t.DependsOn = append(t.DependsOn, store.DesiredTaskEdge{Task: up.Code, Type: types[r.IntN(len(types))], Match: store.MatchNewest, ConsumeRepairs: true})
			}
		}
		for _, up := range earlier {
			if r.IntN(6) == 0 {
				t.DependsOn = append(t.DependsOn, store.DesiredTaskEdge{Pipeline: up.Code, Task: up.Tasks[r.IntN(len(up.Tasks))].Code,
					Type: types[r.IntN(len(types))], Match: match(r), ConsumeRepairs: r.IntN(3) > 0})
			}
		}
		r.Shuffle(len(t.DependsOn), func(i, j int) { t.DependsOn[i], t.DependsOn[j] = t.DependsOn[j], t.DependsOn[i] })
		switch n := len(t.DependsOn); {
		case n > 0 && r.IntN(4) == 0:
			t.RunCondition = "ANY"
		case n > 0 && r.IntN(4) == 0:
			t.RunCondition, t.ConditionCount = "N", 1+r.IntN(n)
		}
		t.Params["RETRIES"] = strconv.Itoa(r.IntN(3))
		t.Params["RETRY_DELAY_SECONDS"] = strconv.Itoa(r.IntN(12))
		t.Params["RETRY_BACKOFF"] = []string{"1", "1.5", "3"}[r.IntN(3)]
		if r.IntN(4) == 0 {
			t.Params["TASK_TIMEOUT_SECONDS"] = strconv.Itoa(1 + r.IntN(8))
		}
		if r.IntN(3) == 0 {
			t.Params["X_TARGET"] = fmt.Sprint("dw.s.t", r.IntN(3))
		}
		p.Tasks = append(p.Tasks, t)
	}
	return p
}

// phase is how long processes are started at random.
const phase = 70 * time.Second

func randomCommand(r *rand.Rand, pipelines []store.DesiredPipeline) planned {
	p := pipelines[r.IntN(len(pipelines))]
	task := p.Tasks[r.IntN(len(p.Tasks))].Code
	c := planned{at: between(r, time.Millisecond, phase)}
	run := &engine.RunRequest{Pipeline: p.Code}
	operate := engine.OperatorRequest{Pipeline: p.Code, Reason: "because"}
	switch n := r.IntN(100); {
	case n < 38:
		if r.IntN(6) == 0 {
			run.RunDate = "2000-01-02"
		}
		c.command.newest = r.IntN(5) == 0 && run.RunDate == ""
	case n < 50:
		run.Task = task
		c.command.newest = r.IntN(3) == 0
	case n < 54:
		run.Force, run.Reason = true, "because"
		c.command.newest = r.IntN(2) == 0
		if r.IntN(2) == 0 {
			run.Task = task
		}
	case n < 60:
		run.Rerun, run.Task, run.Reason = true, task, "because"
		run.WithDownstream = r.IntN(2) == 0
		c.command.newest = r.IntN(4) > 0
	case n < 63:
		run.IgnoreDependencies, run.Task, run.Reason = true, task, "because"
	case n < 68:
		run.Backfill, run.Reason = fmt.Sprintf("1999-12-%02d:1999-12-%02d", 1+r.IntN(2), 2+r.IntN(2)), "because"
	default:
		run = nil
	}
	c.command.run = run
	if run == nil {
		c.command.newest = r.IntN(2) == 0
		switch n := r.IntN(100); {
		case n < 15:
			c.command.operator, c.command.newest = "pause", false
		case n < 35:
			c.command.operator, c.command.newest = "resume", false
		case n < 45:
			c.command.operator = "cancel"
		case n < 58:
			c.command.operator = "skip"
			if r.IntN(3) > 0 {
				operate.Task = task
			}
		case n < 90:
			c.command.operator = "mark"
			operate.Status = []string{store.Success, store.Failed, store.Skipped}[r.IntN(3)]
			if r.IntN(4) > 0 {
				operate.Task = task
				if operate.Status == store.Success && r.IntN(2) == 0 {
					rows := int64(r.IntN(2))
					operate.Rows = &rows
				}
			} else if r.IntN(2) == 0 {
				operate.NewRun, c.command.newest = true, false
			}
		default:
			c.command.operator, c.command.newest = "reconcile", false
			if r.IntN(2) == 0 {
				operate.Pipeline = ""
			}
		}
		c.command.request = operate
	}
	c.fate = randomFate(r)
	return c
}

func randomFate(r *rand.Rand) fate {
	var f fate
	switch n := r.IntN(100); {
	case n < 15:
		f.dieAt = between(r, time.Millisecond, 30*time.Second)
	case n < 35:
		f.dieAtOp, f.dieHow = 1+r.IntN(40), []string{"before", "within", "after"}[r.IntN(3)]
	case n < 43:
		f.stopAt = between(r, time.Millisecond, 20*time.Second)
		if r.IntN(2) == 0 {
			f.cancelAt = f.stopAt + between(r, time.Millisecond, 10*time.Second)
		}
	case n < 46:
		f.cancelAt = between(r, time.Millisecond, 20*time.Second)
	case n < 56:
		f.freezeAt = between(r, time.Millisecond, 15*time.Second)
		f.freezeFor = between(r, time.Second, 20*time.Second)
		if r.IntN(2) == 0 {
			f.freezeFor = between(r, store.Lease, store.Lease+40*time.Second)
		}
	case n < 60:
		f.loseLocks = between(r, time.Millisecond, 15*time.Second)
	case n < 63:
		f.noWarehouse = true
	}
	return f
}

// byTime orders commands.
func byTime(commands []planned) []planned {
	return slices.SortedFunc(slices.Values(commands), func(a, b planned) int { return int(a.at - b.at) })
}
