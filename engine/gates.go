package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// gatePoll is the time between two looks at an upstream that is running.
var gatePoll = 5 * time.Second

// gate is a dependency on another pipeline, or on a task of one, with its name for people.
type gate struct {
	store.Gate
	name string // RAW, or RAW.load for a task
}

func (g gate) String() string { return g.name + " on " + g.Type }

func pipelineGatesOf(g *store.Graph, date string) []gate {
	var gates []gate
	for _, e := range g.DependsOn {
		gates = append(gates, gate{store.Gate{PipelineEdgeID: e.ID, UpstreamPipelineID: e.PipelineID, Type: e.Type,
			Date: matched(e.Match, date), ConsumeRepairs: e.ConsumeRepairs}, e.PipelineCode})
	}
	return gates
}

func taskGatesOf(t *store.Task, date string) []gate {
	var gates []gate
	for _, e := range t.DependsOn {
		if e.PipelineID == t.PipelineID {
			continue
		}
		gates = append(gates, gate{store.Gate{TaskEdgeID: e.ID, UpstreamPipelineID: e.PipelineID, UpstreamTaskID: e.TaskID, Type: e.Type,
			Date: matched(e.Match, date), ConsumeRepairs: e.ConsumeRepairs}, e.PipelineCode + "." + e.TaskCode})
	}
	return gates
}

func matched(match, date string) string {
	if match == store.MatchSameDate {
		return date
	}
	return ""
}

// verdict is what a look at gates found.
type verdict struct {
	decisions []store.GateDecision
	held      int      // how many hold
	busy      []string // upstreams that run and may change the verdict: "run 97 of RAW is IN_PROGRESS"
	unmet     []string // "RAW on SUCCESS: no run that succeeded"
}

// look judges gates by the runs that have ended. needed is how many have to hold; those behind are left alone.
func (e *Engine) look(ctx context.Context, gates []gate, needed int) (verdict, error) {
	var v verdict
	if mode := e.Config.Orchestration.DependencyGates; mode == config.GatesOff {
		v.bypass(gates, "dependency_gates: off", func(gate) bool { return true })
		return v, nil
	}
	var busy []string
	settled := 0 // gates that hold whatever their upstream does next
	for _, g := range gates {
		if settled >= needed {
			break
		}
		u, err := e.Store.LookUpstream(ctx, g.Gate)
		if err != nil {
			return v, err
		}
		d := store.GateDecision{PipelineEdgeID: g.PipelineEdgeID, TaskEdgeID: g.TaskEdgeID, RunID: u.RunID, TaskRunID: u.TaskRunID,
			Revision: u.Revision, Result: store.GateSatisfied}
		if u.RunID == 0 {
			d.Result, d.Reason = store.GateUnsatisfied, "no run "+that[g.Type]
			if g.Date != "" {
				d.Reason = "no run of " + g.Date + " " + that[g.Type] + ", and was not used"
			}
			if u.Used != 0 {
				d.Reason += fmt.Sprintf(" since run %d, which was used", u.Used)
			}
		}
		if u.Busy != 0 {
			busy = append(busy, fmt.Sprintf("run %d of %s is %s", u.Busy, strings.Split(g.name, ".")[0], u.BusyStatus))
			d.Reason = strings.TrimPrefix(d.Reason+"; "+busy[len(busy)-1], "; ")
		}
		switch {
		case d.Result == store.GateSatisfied:
			v.held++
			if u.Busy == 0 {
				settled++
			}
		case e.Config.Orchestration.DependencyGates == config.GatesWarn:
			e.Log.Warn(fmt.Sprintf("%s does not hold (%s), and dependency_gates is warn", g, d.Reason))
			d.Result, d.Reason = store.GateBypassed, "dependency_gates: warn; "+d.Reason
			v.held++
			settled++
		default:
			v.unmet = append(v.unmet, g.String()+": "+d.Reason)
		}
		v.decisions = append(v.decisions, d)
	}
	if settled < needed && e.Config.Orchestration.DependencyGates != config.GatesWarn {
		v.busy = busy
	}
	return v, nil
}

// refused are the ids of the dependencies of a task that do not hold.
func (v *verdict) refused() []int64 {
	var ids []int64
	for _, d := range v.decisions {
		if d.Result == store.GateUnsatisfied {
			ids = append(ids, d.TaskEdgeID)
		}
	}
	return ids
}

// doubtful are the gates that do not hold, or hold while their upstream runs, and why.
func (v *verdict) doubtful(gates []gate) (names, whys []string) {
	for i, d := range v.decisions {
		if d.Result != store.GateBypassed && d.Reason != "" {
			names, whys = append(names, gates[i].String()), append(whys, gates[i].String()+": "+d.Reason)
		}
	}
	return names, whys
}

// that says which runs satisfy a dependency of a type.
var that = map[string]string{
	store.OnSuccess: "that succeeded", store.OnFailure: "that failed", store.OnAlways: "that ended", store.OnHasData: "that wrote rows",
}

// bypass lets gates hold unasked, those that may.
func (v *verdict) bypass(gates []gate, reason string, holds func(gate) bool) {
	for _, g := range gates {
		d := store.GateDecision{PipelineEdgeID: g.PipelineEdgeID, TaskEdgeID: g.TaskEdgeID, Result: store.GateBypassed, Reason: reason}
		if holds(g) {
			v.held++
		} else {
			d.Result = store.GateUnsatisfied
			v.unmet = append(v.unmet, g.String()+": "+reason)
		}
		v.decisions = append(v.decisions, d)
	}
}

// pipelineGates decides whether a run may start, and waits while an upstream runs, if it may wait. A refusal is NOT_READY
// and is recorded without a run.
func (e *Engine) pipelineGates(ctx context.Context, g *store.Graph, date string, mayWait bool) ([]store.GateDecision, error) {
	gates := pipelineGatesOf(g, date)
	if len(gates) == 0 || e.remote() {
		return nil, nil
	}
	wait := store.GateWait{PipelineID: g.Pipeline.ID}
	said := ""
	for {
		v, err := e.look(ctx, gates, len(gates))
		if err != nil {
			return nil, err
		}
		if len(v.busy) > 0 && mayWait && e.Config.Orchestration.GateWait > 0 {
			left, err := e.Store.WaitForGate(ctx, wait, gatePoll, e.Config.Orchestration.GateWait)
			if err != nil {
				return nil, err
			}
			if left > 0 {
				if text := strings.Join(v.busy, ", "); text != said {
					said = text
					e.Log.Info(fmt.Sprintf("waits at most %s: %s", left.Round(time.Second), text), "pipeline", g.Pipeline.Code)
				}
				if err := e.pause(ctx, g, min(gatePoll, left)); err != nil {
					return nil, err
				}
				continue
			}
		}
		if mayWait {
			if err := e.Store.EndGateWait(ctx, wait); err != nil {
				return nil, err
			}
		}
		if v.held == len(gates) {
			return v.decisions, nil
		}
		if err := e.Store.RecordGates(ctx, e.Actor, g.Pipeline.ID, 0, 0, v.decisions); err != nil {
			return nil, err
		}
		return nil, fault.New(fault.NotReady, "pipeline %s waits for %s", g.Pipeline.Code, strings.Join(v.unmet, "; ")).
			WithHint("etl-craft history --pipeline %s", strings.Fields(v.unmet[0])[0])
	}
}

// pause sleeps, unless no new work may start any more.
func (e *Engine) pause(ctx context.Context, g *store.Graph, d time.Duration) error {
	select {
	case <-time.After(d):
		return e.refusePaused(ctx, g)
	case <-e.Stop:
	case <-ctx.Done():
	}
	return interrupted(g.Pipeline.Code)
}

// taskGates looks at a task's dependencies on other pipelines, of which needed have to hold.
func (e *Engine) taskGates(ctx context.Context, t *store.Task, date string, backfill bool, needed int) (verdict, error) {
	gates := taskGatesOf(t, date)
	if !backfill {
		return e.look(ctx, gates, needed)
	}
	var v verdict
	v.bypass(gates, noGates, func(g gate) bool { return g.Type != store.OnFailure })
	return v, nil
}

// openGates tells the flow of each task whether its dependencies on other pipelines hold, or keeps the task waiting while
// an upstream runs.
func (w *work) openGates(ctx context.Context, tasks []*store.Task) error {
	for _, t := range tasks {
		v, err := w.gatesOf(ctx, t)
		if err != nil {
			return err
		}
		wait := store.GateWait{PipelineID: t.PipelineID, RunID: w.run.ID, TaskID: t.ID}
		if len(v.busy) > 0 && w.e.Config.Orchestration.GateWait > 0 {
			left, err := w.e.Store.WaitForGate(ctx, wait, gatePoll, w.e.Config.Orchestration.GateWait)
			if err != nil {
				return err
			}
			if left > 0 {
				w.waitAtGate(t, strings.Join(v.busy, ", "), left)
				continue
			}
		}
		if _, waited := w.atGate[t.ID]; waited {
			if err := w.e.Store.EndGateWait(ctx, wait); err != nil {
				return err
			}
			delete(w.atGate, t.ID)
		}
		if err := w.e.Store.RecordGates(ctx, w.e.Actor, t.PipelineID, w.run.ID, w.rows[t.ID].ID, v.decisions); err != nil {
			return err
		}
		w.flow.judge(t.ID, v.held, v.refused()...)
	}
	return nil
}

// gateWait is a task that waits for an upstream that runs.
type gateWait struct {
	task *store.Task
	why  string
	look time.Time // when to look again
}

func (w *work) waitAtGate(t *store.Task, why string, left time.Duration) {
	if w.atGate[t.ID].why != why {
		w.e.Log.Info(fmt.Sprintf("waits at most %s: %s", left.Round(time.Second), why), "pipeline", w.g.Pipeline.Code, "task", t.Code)
	}
	w.atGate[t.ID] = gateWait{t, why, time.Now().Add(min(gatePoll, left))}
}

// gateAlarm rings when a gate is to be looked at again; nil when no task waits at one.
func (w *work) gateAlarm() <-chan time.Time {
	var first *time.Time
	for _, g := range w.atGate {
		if first == nil || g.look.Before(*first) {
			first = &g.look
		}
	}
	if first == nil {
		return nil
	}
	return time.After(time.Until(*first))
}

// lookAgain looks at the gates whose time has come.
func (w *work) lookAgain(ctx context.Context) error {
	var tasks []*store.Task
	for _, t := range w.g.Tasks {
		if g, ok := w.atGate[t.ID]; ok && time.Until(g.look) <= 0 {
			tasks = append(tasks, g.task)
		}
	}
	return w.openGates(ctx, tasks)
}

func rowState(r *store.TaskRun) state {
	s := state{status: r.Status, reason: r.SkipReason}
	if r.Counts.Written != nil {
		s.written = *r.Counts.Written
	}
	return s
}

// hasGates reports whether a task depends on other pipelines.
func hasGates(t *store.Task) bool {
	for _, e := range t.DependsOn {
		if e.PipelineID != t.PipelineID {
			return true
		}
	}
	return false
}
