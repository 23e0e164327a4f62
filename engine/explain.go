package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// ExplainRequest chooses a task, and a run as StatusRequest does.
type ExplainRequest struct {
	StatusRequest
	Task string
}

// ExplainDocument is etl-craft/explain/1: why a task is in its state, and what comes next.
type ExplainDocument struct {
	Schema        string              `json:"schema"`
	Pipeline      string              `json:"pipeline"`
	PipelineRunID *int64              `json:"pipeline_run_id"` // null before the first run
	RunStatus     *string             `json:"run_status"`
	Task          *TaskDocument       `json:"task"`          // null when no run has it
	RunCondition  string              `json:"run_condition"` // ALL, ANY or a number
	Required      int                 `json:"required"`      // dependencies that have to hold
	DependsOn     []ExplainDependency `json:"depends_on"`
	// PipelineDependsOn are the dependencies of the pipeline, as they stand for a new run; empty where none would start.
	PipelineDependsOn []ExplainDependency  `json:"pipeline_depends_on"`
	WaitsUntil        *Time                `json:"waits_until"`  // the deadline of a wait for an upstream that runs
	LockHolder        *LockDocument        `json:"lock_holder"`  // who holds the target, when that is another task
	Intervention      *HistoryIntervention `json:"intervention"` // what an operator did that made the task's status
	Why               string               `json:"why"`
	Next              string               `json:"next"` // what makes it run, or goes on; "" when nothing is to be done
}

// ExplainDependency is one dependency of the task, or of its pipeline. Holds is null while that is open.
type ExplainDependency struct {
	On       string `json:"on"`
	Upstream string `json:"upstream"` // task, PIPELINE.task, or PIPELINE
	Holds    *bool  `json:"holds"`
	Why      string `json:"why"`
}

// Explain says why a task is in its state and what would make it run. Without a run it judges as if one started now.
func (e *Engine) Explain(ctx context.Context, req ExplainRequest) (*ExplainDocument, error) {
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return nil, err
	}
	task, err := findTask(g, req.Task)
	if err != nil {
		return nil, err
	}
	x := &explanation{e: e, g: g, task: task, doc: &ExplainDocument{
		Schema: "etl-craft/explain/1", Pipeline: g.Pipeline.Code, RunCondition: conditionText(task), Required: required(task), DependsOn: []ExplainDependency{},
		PipelineDependsOn: []ExplainDependency{},
	}}
	if x.run, err = e.chosen(ctx, g, req.StatusRequest); err != nil {
		return nil, err
	}
	if err := x.read(ctx); err != nil {
		return nil, err
	}
	if err := x.dependencies(ctx); err != nil {
		return nil, err
	}
	if err := x.conclude(ctx); err != nil {
		return nil, err
	}
	if req.RunID == 0 && req.RunKey == "" {
		err = x.newRun(ctx)
	}
	return x.doc, err
}

// explanation is a document under way.
type explanation struct {
	e     *Engine
	g     *store.Graph
	task  *store.Task
	run   *store.Run // nil before the first one
	row   *store.TaskRun
	rows  map[int64]*store.TaskRun
	idle  bool     // the run is unfinished and nobody works on it
	first []string // tasks that it depends on and that run tries again
	doc   *ExplainDocument
}

func (x *explanation) read(ctx context.Context) error {
	if x.run == nil {
		return nil
	}
	x.doc.PipelineRunID, x.doc.RunStatus = &x.run.ID, &x.run.Status
	rows, err := x.e.Store.TaskRuns(ctx, x.run.ID)
	if err != nil {
		return err
	}
	x.rows = make(map[int64]*store.TaskRun, len(rows))
	for i := range rows {
		x.rows[rows[i].TaskID] = &rows[i]
	}
	if x.row = x.rows[x.task.ID]; x.row != nil {
		doc := taskDocument(x.row)
		x.doc.Task = &doc
	}
	if x.run.Ended() {
		return nil
	}
	x.idle = x.run.OwnerID == ""
	if !x.idle {
		x.idle, err = x.e.gone(ctx, x.run.OwnerID, x.run.LeaseExpired)
	}
	return err
}

// triedFirst reports whether run tries a task that has failed, or was skipped for a failure, again before this one.
func (x *explanation) triedFirst(up *store.TaskRun) bool {
	failed := up.Status == store.Failed || up.Status == store.Skipped && up.SkipReason == store.SkipUpstream
	return failed && x.idle && !x.e.remote() && x.row != nil && x.row.Status == store.Pending
}

func (x *explanation) dependencies(ctx context.Context) error {
	gates, err := x.gates(ctx)
	if err != nil {
		return err
	}
	for _, edge := range x.task.DependsOn {
		if edge.PipelineID != x.task.PipelineID {
			x.doc.DependsOn = append(x.doc.DependsOn, gates[edge.ID])
			continue
		}
		d := ExplainDependency{On: edge.Type, Upstream: edge.TaskCode}
		switch up := x.rows[edge.TaskID]; {
		case x.run == nil:
			d.Why = "has not run"
		case up == nil:
			no := false
			d.Holds, d.Why = &no, "is not part of the run"
		case x.triedFirst(up):
			d.Why = "is " + up.Status + ", and run tries it again first"
			x.first = append(x.first, edge.TaskCode)
		case rowState(up).ended():
			holds := holds(edge.Type, rowState(up))
			d.Holds, d.Why = &holds, "is "+up.Status
			if edge.Type == store.OnHasData && up.Status == store.Success {
				d.Why += fmt.Sprintf(" and wrote %d rows", rowState(up).written)
			}
		default:
			d.Why = "is " + up.Status
		}
		x.doc.DependsOn = append(x.doc.DependsOn, d)
	}
	return nil
}

// gates explains the dependencies on other pipelines by their ids: as they were decided, else as they stand now.
func (x *explanation) gates(ctx context.Context) (map[int64]ExplainDependency, error) {
	found := map[int64]ExplainDependency{}
	date := ""
	if x.run != nil {
		date = x.run.Date
	} else {
		today, err := x.e.today(ctx)
		if err != nil {
			return nil, err
		}
		date = today
	}
	decided := map[int64]store.GateDecision{}
	if x.row != nil && x.row.Status != store.Pending {
		list, err := x.e.Store.GateDecisions(ctx, x.run.ID, x.row.ID)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			decided[d.TaskEdgeID] = d
		}
	}
	for _, g := range taskGatesOf(x.task, date) {
		d, known := decided[g.TaskEdgeID]
		if !known {
			v, err := x.e.look(ctx, []gate{g}, 1)
			if err != nil {
				return nil, err
			}
			d = v.decisions[0]
		}
		found[g.TaskEdgeID] = explainGate(g, d)
	}
	return found, nil
}

func explainGate(g gate, d store.GateDecision) ExplainDependency {
	holds := d.Result != store.GateUnsatisfied
	why := d.Reason
	if d.RunID != 0 {
		why = strings.TrimSuffix(fmt.Sprintf("run %d; %s", d.RunID, d.Reason), "; ")
	}
	return ExplainDependency{On: g.Type, Upstream: g.name, Holds: &holds, Why: why}
}

// conclude says why, and what comes next.
func (x *explanation) conclude(ctx context.Context) error {
	code := x.g.Pipeline.Code
	again := "etl-craft run --pipeline " + code
	switch {
	case x.run == nil:
		x.doc.Why, x.doc.Next = fmt.Sprintf("pipeline %s has not run yet", code), again
		return nil
	case x.row == nil:
		x.doc.Why, x.doc.Next = fmt.Sprintf("run %d has no such task; it joins when the run goes on, or with the next run", x.run.ID), again
		return nil
	}
	by, err := x.intervention(ctx)
	if err != nil {
		return err
	}
	if by != nil {
		x.doc.Intervention = by
		what := map[string]string{store.ActionMark: "marked " + x.row.Status, store.ActionSkip: "skipped", store.ActionCancel: "cancelled"}[by.Action]
		x.doc.Why = fmt.Sprintf("it was %s by %s at %s: %s", what, by.By, by.At.UTC().Format(dayAndTime), by.Reason)
		if x.row.Status == store.Failed {
			x.doc.Next = fmt.Sprintf("%s --run-id %d tries it again", again, x.run.ID)
		}
		return nil
	}
	switch x.row.Status {
	case store.Success:
		x.doc.Why = fmt.Sprintf("it succeeded in attempt %d", x.row.Attempts)
	case store.Failed:
		x.doc.Why = fmt.Sprintf("attempt %d failed: %s: %s", x.row.Attempts, x.row.ErrorCode, x.row.Error)
		x.doc.Next = fmt.Sprintf("correct it, then %s --run-id %d", again, x.run.ID)
	case store.Skipped:
		x.doc.Why = "it was skipped: " + x.row.SkipReason
		if x.row.Error != "" {
			x.doc.Why += ", " + x.row.Error
		}
		if x.row.SkipReason == store.SkipUpstream {
			x.doc.Next = fmt.Sprintf("correct what failed, then %s --run-id %d", again, x.run.ID)
		}
	case store.Cancelled:
		x.doc.Why = "it was cancelled"
	case store.InProgress:
		return x.running(ctx)
	default:
		return x.pending(ctx, again)
	}
	return nil
}

const (
	timeOfDay  = "15:04:05 UTC"
	dayAndTime = "2006-01-02 " + timeOfDay
)

// intervention is what an operator did that made the task's status, nil when nobody did.
func (x *explanation) intervention(ctx context.Context) (*HistoryIntervention, error) {
	switch s := rowState(x.row); {
	case !s.ended(), s.status == store.Skipped && s.reason != store.SkipOperator,
		s.status == store.Failed && x.row.ErrorCode != string(fault.MarkedFailed):
		return nil, nil
	}
	list, err := x.e.Store.InterventionsOfRuns(ctx, x.g.Pipeline.ID, x.run.ID, x.run.ID)
	if err != nil {
		return nil, err
	}
	last := lastMade(list, x.task.Code, x.row)
	if last == nil {
		return nil, nil
	}
	attempts, err := x.e.Store.Attempts(ctx, x.row.ID)
	if err != nil {
		return nil, err
	}
	if n := len(attempts); n > 0 && x.row.Status == store.Success && attempts[n-1].QueuedAt.After(last.At) {
		return nil, nil // an orchestrator asked for another attempt
	}
	doc := historyIntervention(last)
	return &doc, nil
}

// lastMade finds the last intervention that can have made a task's status.
func lastMade(list []store.Intervention, task string, row *store.TaskRun) *store.Intervention {
	var last *store.Intervention
	for i := range list {
		switch by := &list[i]; {
		case by.Task != "" && by.Task != task:
		case row.Status == store.Cancelled:
			if by.Action == store.ActionCancel {
				last = by
			}
		case by.Task == "" && by.Action == store.ActionSkip: // of what was PENDING then
			if row.Status == store.Skipped && (last == nil || last.To == store.Failed) { // FAILED is tried again by itself
				last = by
			}
		case by.Task == "" && by.Action != store.ActionReset:
		case by.Action == store.ActionMark, by.Action == store.ActionSkip:
			last = by
		default: // made to run again
			last = nil
		}
	}
	if last != nil && last.Task != "" && last.To != row.Status {
		return nil
	}
	return last
}

func (x *explanation) running(ctx context.Context) error {
	live, err := x.e.liveAttempt(ctx, x.row)
	if err != nil {
		return err
	}
	if live == nil {
		x.doc.Why, x.doc.Next = "its attempt has just ended", ""
		return nil
	}
	x.doc.Why = fmt.Sprintf("attempt %d is run by %s", live.Number, ownerText(live.OwnerID))
	gone, err := x.e.gone(ctx, live.OwnerID, live.LeaseExpired)
	if err != nil {
		return err
	}
	if gone {
		x.doc.Why, x.doc.Next = x.doc.Why+", which is gone", "etl-craft run --pipeline "+x.g.Pipeline.Code
		return nil
	}
	if live.Phase != store.PhaseStarted {
		return nil
	}
	return x.lock(ctx)
}

// lock finds who holds the target that the attempt wants.
func (x *explanation) lock(ctx context.Context) error {
	held, err := x.e.Locker.Held(ctx)
	if err != nil {
		return err
	}
	for _, h := range held {
		if h.Pipeline != "" && strings.EqualFold(h.What, "target "+x.row.TargetName) && h.TaskRunID != x.row.ID {
			holder := lockDocument(h)
			x.doc.LockHolder = &holder
			x.doc.Why += "; it waits for the lock on its target, held by " + h.String()
		}
	}
	return nil
}

func (x *explanation) pending(ctx context.Context, again string) error {
	waits, err := x.e.Store.GateWaits(ctx, x.g.Pipeline.ID)
	if err != nil {
		return err
	}
	for _, w := range waits {
		if w.RunID == x.run.ID && w.TaskID == x.task.ID {
			x.doc.WaitsUntil = &Time{w.Until}
		}
	}
	open, lost := 0, 0
	for _, d := range x.doc.DependsOn {
		switch {
		case d.Holds == nil:
			open++
		case !*d.Holds:
			lost++
		}
	}
	switch held := len(x.doc.DependsOn) - open - lost; {
	case x.row.NotBefore != nil:
		x.doc.Why = fmt.Sprintf("attempt %d failed (%s); the next try is due at %s", x.row.Attempts, x.row.ErrorCode, x.row.NotBefore.UTC().Format(timeOfDay))
	case x.doc.WaitsUntil != nil:
		x.doc.Why = "it waits for an upstream that runs, at most until " + x.doc.WaitsUntil.UTC().Format(timeOfDay)
	case held >= x.doc.Required:
		x.doc.Why = "all that it waits for holds"
	default:
		x.doc.Why = fmt.Sprintf("%d of %d dependencies have to hold, %d do, %d are open", x.doc.Required, len(x.doc.DependsOn), held, open)
		if len(x.first) > 0 {
			x.doc.Why += "; run tries " + strings.Join(x.first, ", ") + " again first"
		}
	}
	switch {
	case x.run.Ended():
		x.doc.Why = fmt.Sprintf("the run ended %s before it ran", x.run.Status)
		if x.run.Status == store.Failed {
			x.doc.Next = fmt.Sprintf("%s --run-id %d", again, x.run.ID)
		}
	case x.g.PausedBy != "":
		x.doc.Next = x.paused()
	case x.run.OwnerID == "":
		x.doc.Next = "nobody works on the run: " + again
	case x.idle:
		x.doc.Next = ownerText(x.run.OwnerID) + " worked on the run and is gone: " + again
	default:
		x.doc.Next = ownerText(x.run.OwnerID) + " works on the run"
	}
	return nil
}

func (x *explanation) paused() string {
	return fmt.Sprintf("pipeline %s is paused by %s (%s): etl-craft resume --pipeline %s", x.g.Pipeline.Code, x.g.PausedBy, x.g.PauseWhy, x.g.Pipeline.Code)
}

// newRun says what the pipeline's own dependencies make of a new run, when that is what run would start.
func (x *explanation) newRun(ctx context.Context) error {
	if x.run != nil && !x.run.Ended() {
		return nil
	}
	if x.run == nil && x.g.PausedBy != "" {
		x.doc.Next = x.paused()
	}
	if len(x.g.DependsOn) == 0 || x.e.remote() {
		return nil
	}
	date, err := x.e.today(ctx)
	if err != nil {
		return err
	}
	gates := pipelineGatesOf(x.g, date)
	v, err := x.e.look(ctx, gates, len(gates))
	if err != nil {
		return err
	}
	for i, d := range v.decisions {
		x.doc.PipelineDependsOn = append(x.doc.PipelineDependsOn, explainGate(gates[i], d))
	}
	wait, err := x.e.startWaits(ctx, x.g)
	if err != nil {
		return err
	}
	_, whys := v.doubtful(gates)
	text := strings.Join(whys, "; ")
	switch {
	case wait != nil:
		x.doc.WaitsUntil = &Time{wait.Until}
		x.ofNewRun(strings.TrimSuffix("a run waits to start, at most until "+wait.Until.UTC().Format(timeOfDay)+": "+text, ": "))
		if x.run == nil && x.g.PausedBy == "" {
			x.doc.Next = "" // it starts by itself
		}
	case len(v.busy) > 0 && x.e.Config.Orchestration.GateWait > 0:
		x.ofNewRun(fmt.Sprintf("a new run would wait to start, at most %s: %s", x.e.Config.Orchestration.GateWait, text))
	case v.held < len(gates):
		return x.refused(ctx, v)
	}
	return nil
}

// startWaits is the wait of a run that is to start, nil when no process waits.
func (e *Engine) startWaits(ctx context.Context, g *store.Graph) (*store.GateWait, error) {
	waits, err := e.Store.GateWaits(ctx, g.Pipeline.ID)
	if err != nil || len(waits) == 0 {
		return nil, err
	}
	now, err := e.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	for i, w := range waits {
		if w.RunID == 0 && w.NextCheck.Add(heartbeat).After(now) { // else it was left by a process that has gone
			return &waits[i], nil
		}
	}
	return nil, nil
}

func (x *explanation) ofNewRun(text string) { x.doc.Why += "; " + text }

// refused says that a new run would be, and when one was.
func (x *explanation) refused(ctx context.Context, v verdict) error {
	at, err := x.e.Store.LastRefusal(ctx, x.g.Pipeline.ID)
	if err != nil {
		return err
	}
	was := ""
	if at != nil && (x.run == nil || at.After(x.run.StartedAt)) {
		was = ", as one was at " + at.UTC().Format(dayAndTime)
	}
	x.ofNewRun(fmt.Sprintf("a new run would be refused%s: it waits for %s", was, strings.Join(v.unmet, "; ")))
	if x.doc.Next == "" || x.run == nil && x.g.PausedBy == "" {
		x.doc.Next = "etl-craft history --pipeline " + strings.Fields(v.unmet[0])[0]
	}
	return nil
}
