package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
)

// checkAgain refuses flags that contradict each other, and those that need a reason without one.
func (r *RunRequest) checkAgain() error {
	var asked []string
	for _, f := range []struct {
		set  bool
		name string
	}{{r.Force, "--force"}, {r.Rerun, "--rerun"}, {r.IgnoreDependencies, "--ignore-dependencies"}, {r.Backfill != "", "--backfill"}} {
		if f.set {
			asked = append(asked, f.name)
		}
	}
	switch {
	case len(asked) > 1:
		err := fault.New(fault.Usage, "%s exclude each other", strings.Join(asked, " and "))
		if r.Rerun && r.IgnoreDependencies {
			return err.WithHint("--force runs a task whatever its status and its dependencies are")
		}
		return err
	case r.WithDownstream && !r.Rerun:
		return fault.New(fault.Usage, "--with-downstream needs --rerun")
	case r.Reason != "" && len(asked) == 0:
		return fault.New(fault.Usage, "--reason is for --force, --rerun, --ignore-dependencies and --backfill")
	case len(asked) == 0:
		return nil
	case strings.TrimSpace(r.Reason) == "":
		return fault.New(fault.Usage, "%s needs --reason TEXT, which is kept with the run", asked[0])
	case r.InitOnly || r.FinalizeOnly:
		return fault.New(fault.Usage, "%s excludes --init-only and --finalize-only", asked[0])
	case r.Backfill != "":
		return r.checkBackfill()
	case r.Task == "" && !r.Force:
		return fault.New(fault.Usage, "%s needs --task", asked[0]).WithHint("etl-craft run --pipeline %s --force runs all tasks again", r.Pipeline)
	}
	return nil
}

// again reports whether the request is for one task that would be refused otherwise.
func (r *RunRequest) again() bool { return r.Force || r.Rerun || r.IgnoreDependencies }

// unusual is the flag that only this process may give to tasks, "" for none.
func (r *RunRequest) unusual() string {
	switch {
	case r.Force:
		return "--force"
	case r.Rerun:
		return "--rerun"
	case r.IgnoreDependencies:
		return "--ignore-dependencies"
	case r.Backfill != "":
		return "--backfill"
	}
	return ""
}

// refuseRemote refuses what an outside orchestrator decides by itself.
func (r *RunRequest) refuseRemote() error {
	if flag := r.unusual(); flag != "" {
		return fault.New(fault.WrongMode, "orchestration.mode is remote, so %s is the orchestrator's", flag).
			WithHint("clear the task in the orchestrator, which runs it again")
	}
	return nil
}

// reopen makes an ended run unfinished. What shall run again becomes PENDING in the same step.
func (e *Engine) reopen(ctx context.Context, c choice, owner string) error {
	if c.again != nil {
		return e.runAgain(ctx, c, owner)
	}
	return e.Store.ReopenRun(ctx, store.Reopen{RunID: c.run.ID, Owner: owner, Actor: e.Actor, Reason: orText(c.reason, "run again by its id or key")})
}

func orText(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

func (e *Engine) runAgain(ctx context.Context, c choice, owner string) error {
	a := *c.again
	a.RunID, a.Owner, a.Actor, a.Reason = c.run.ID, owner, e.Actor, c.reason
	err := e.Store.RunAgain(ctx, a)
	faultpoint.Hit("tasks run again")
	return err
}

// resetTasks makes those tasks of a run that was taken PENDING that are to be tried again.
func (e *Engine) resetTasks(ctx context.Context, c choice, owner string) error {
	switch {
	case c.run == nil:
		return nil
	case c.again == nil:
		return e.Store.ResetTasks(ctx, c.run.ID, store.ResetFailed)
	case c.run.Ended():
		return nil // they were, when it was reopened
	}
	return e.runAgain(ctx, c, owner)
}

// gatesOfNew decides whether a new run may start. Nobody asks gates for one whose gates are bypassed.
func (e *Engine) gatesOfNew(ctx context.Context, g *store.Graph, c choice, mayWait bool) ([]store.GateDecision, error) {
	if c.bypass == "" {
		return e.pipelineGates(ctx, g, c.date, mayWait)
	}
	var v verdict
	v.bypass(pipelineGatesOf(g, c.date), c.bypass, func(gate) bool { return true })
	return v.decisions, nil
}

// taskGatesIn looks at a task's dependencies on other pipelines in a run, nil for one that there is not yet. What the task
// has used up in this very run holds for it still.
func (e *Engine) taskGatesIn(ctx context.Context, t *store.Task, run *store.Run, date string, needed int) (verdict, error) {
	if run == nil {
		return e.taskGates(ctx, t, date, false, needed)
	}
	used, err := e.Store.HasConsumed(ctx, run.ID, t.ID)
	if used || err != nil {
		return verdict{held: needed}, err
	}
	return e.taskGates(ctx, t, date, run.Trigger == store.TriggerBackfill, needed)
}

// gatesOf looks at the gates of a task of this run, unless a person has said not to ask them.
func (w *work) gatesOf(ctx context.Context, t *store.Task) (verdict, error) {
	if w.bypass != "" && w.run.Trigger != store.TriggerBackfill {
		return bypassed(t, w.run.Date, w.bypass), nil
	}
	return w.e.taskGatesIn(ctx, t, w.run, w.run.Date, w.flow.needed(t.ID))
}

func bypassed(t *store.Task, date, reason string) verdict {
	var v verdict
	v.bypass(taskGatesOf(t, date), reason, func(gate) bool { return true })
	return v
}

// wanted are those of the tasks that this process is to run.
func (w *work) wanted(tasks []*store.Task) []*store.Task {
	if w.only == nil {
		return tasks
	}
	var wanted []*store.Task
	for _, t := range tasks {
		if w.only[t.ID] {
			wanted = append(wanted, t)
		}
	}
	return wanted
}

// runTaskAgain runs one task with --force, --rerun or --ignore-dependencies.
func (e *Engine) runTaskAgain(ctx context.Context, g *store.Graph, task *store.Task, req RunRequest) (*RunDocument, error) {
	c, err := e.chooseAgain(ctx, g, req)
	if err != nil {
		return nil, err
	}
	if err := e.mayStart(ctx, g, c); err != nil {
		return nil, err
	}
	rows, err := e.rowsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	row := rows[task.ID]
	if err := e.refuseAgain(ctx, c.run, row, req); err != nil {
		return nil, err
	}
	c.again = againOf(g, task, rows, req)
	may, err := e.mayAgain(ctx, g, c, task, req)
	if err != nil {
		return nil, err
	}
	if c.run == nil {
		c.bypass = req.Reason // only --force starts a run
		if c.gates, err = e.gatesOfNew(ctx, g, c, false); err != nil {
			return nil, err
		}
	}
	if err := e.connectUnlessStopped(ctx); err != nil {
		return nil, err
	}
	w, err := e.newWork(ctx, g)
	if err != nil {
		return nil, err
	}
	owner := ""
	if req.WithDownstream {
		owner, w.only = e.id, map[int64]bool{task.ID: true}
		w.owner = owner
		for _, t := range downstream(g, task, func(*store.Task) bool { return true }) {
			w.only[t.ID] = true
		}
	}
	if w.run, err = e.takeNow(ctx, g, &c, owner); err != nil {
		return nil, err
	}
	doc, err := w.doAgain(ctx, c, task, may, owner)
	if owner != "" && err != nil && !fault.Has(err, fault.RunFailed) {
		err = e.leave(ctx, w.run, err)
	}
	if err == nil && doc.Status == store.InProgress {
		e.Log.Info(fmt.Sprintf("run %d goes on with: etl-craft run --pipeline %s --run-id %d", w.run.ID, g.Pipeline.Code, w.run.ID), "pipeline", g.Pipeline.Code)
	}
	return doc, err
}

// chooseAgain finds the run; only --force may start one.
func (e *Engine) chooseAgain(ctx context.Context, g *store.Graph, req RunRequest) (choice, error) {
	if req.RunKey != "" && !req.Force {
		run, err := e.named(ctx, g, 0, req.RunKey)
		if err == nil && run == nil {
			err = noRun(g, "run with the key %s", req.RunKey)
		}
		if err != nil {
			return choice{}, err
		}
	}
	c, err := e.choose(ctx, g, req)
	c.reason = req.Reason
	switch {
	case err != nil:
		return c, err
	case c.run == nil && !req.Force:
		return c, fault.New(fault.RunNotFound, "pipeline %s has no unfinished run, and %s needs one or --run-id", g.Pipeline.Code, req.unusual()).
			WithHint("etl-craft history --pipeline %s", g.Pipeline.Code)
	case req.IgnoreDependencies && c.run.Ended():
		return c, fault.New(fault.RunEnded, "run %d of pipeline %s has ended %s, and --ignore-dependencies is for an unfinished one", c.run.ID, g.Pipeline.Code, c.run.Status).
			WithHint("--force reopens the run")
	}
	return c, nil
}

// rowsOf are the task runs of the chosen run by their tasks; none for a new one.
func (e *Engine) rowsOf(ctx context.Context, c choice) (map[int64]*store.TaskRun, error) {
	rows := map[int64]*store.TaskRun{}
	if c.run == nil {
		return rows, nil
	}
	list, err := e.Store.TaskRuns(ctx, c.run.ID)
	for i := range list {
		rows[list[i].TaskID] = &list[i]
	}
	return rows, err
}

// refuseAgain fails with TASK_STATE when the flag is not for a task in this state. A task without a row is PENDING, and so
// is one whose process has died: the row is made to say so. A task that has been tried and is PENDING was interrupted, so
// that the same --rerun goes on with it.
func (e *Engine) refuseAgain(ctx context.Context, run *store.Run, row *store.TaskRun, req RunRequest) error {
	status := store.Pending
	if row != nil {
		if row.Status == store.InProgress {
			if _, err := e.refuseTask(ctx, choice{run: run}, row, rowState(row)); err != nil {
				return err
			}
			row.Status = store.Pending
		}
		status = row.Status
	}
	switch {
	case req.Rerun && status == store.Pending && (row == nil || row.Attempts == 0):
		err := fault.New(fault.TaskState, "task %s has not finished in run %d, so there is nothing to rerun", req.Task, run.ID).
			WithHint("etl-craft run --pipeline %s --task %s --run-id %d", run.PipelineCode, req.Task, run.ID)
		err.Task = req.Task
		return err
	case req.IgnoreDependencies && status != store.Pending && status != store.Failed:
		err := taskState(run, row, "is %s in run %d, and --ignore-dependencies is for a task that has not finished", status, run.ID)
		return fault.As(err).WithHint("--force runs it whatever its status is")
	}
	return nil
}

// againOf says which task runs become PENDING: the task's own, and those behind it that were skipped because of it, or with
// --with-downstream all that have ended, except what a person has skipped.
func againOf(g *store.Graph, task *store.Task, rows map[int64]*store.TaskRun, req RunRequest) *store.Again {
	a := &store.Again{Action: store.ActionReset}
	switch {
	case req.Rerun:
		a.Action = store.ActionRerun
	case req.IgnoreDependencies:
		a.Action = store.ActionIgnore
	}
	if row := rows[task.ID]; row != nil {
		a.TaskRun, a.From = row.ID, row.Status
	}
	lost := func(t *store.Task) bool {
		row := rows[t.ID]
		return row != nil && row.Status == store.Skipped && (row.SkipReason == store.SkipUpstream || row.SkipReason == store.SkipCondition)
	}
	follow := lost
	if req.WithDownstream {
		follow = func(*store.Task) bool { return true }
	}
	for _, t := range downstream(g, task, follow) {
		row := rows[t.ID]
		if row != nil && row.Status != store.Pending && (row.Status != store.Skipped || lost(t) || row.SkipReason == store.SkipGate) {
			a.Downstream = append(a.Downstream, row.ID)
		}
	}
	return a
}

// downstream are the tasks of the pipeline that wait for a task, directly or not, as far as follow lets through.
func downstream(g *store.Graph, task *store.Task, follow func(*store.Task) bool) []*store.Task {
	dependents := map[int64][]*store.Task{}
	for i := range g.Tasks {
		for _, e := range g.Tasks[i].DependsOn {
			dependents[e.TaskID] = append(dependents[e.TaskID], &g.Tasks[i])
		}
	}
	var found []*store.Task
	seen := map[int64]bool{task.ID: true}
	for look := []*store.Task{task}; len(look) > 0; look = look[1:] {
		for _, t := range dependents[look[0].ID] {
			if !seen[t.ID] && follow(t) {
				seen[t.ID] = true
				found, look = append(found, t), append(look, t)
			}
		}
	}
	return found
}

// mayAgain judges the dependencies of a task that is to run again. Only --rerun asks them.
func (e *Engine) mayAgain(ctx context.Context, g *store.Graph, c choice, task *store.Task, req RunRequest) (permission, error) {
	if req.Rerun {
		return e.taskMayStart(ctx, g, c, task)
	}
	date := c.date
	if c.run != nil {
		date = c.run.Date
	}
	return permission{gates: bypassed(task, date, req.Reason).decisions}, nil
}

// doAgain runs the task in the run that was taken.
func (w *work) doAgain(ctx context.Context, c choice, task *store.Task, may permission, owner string) (*RunDocument, error) {
	if err := w.e.resetTasks(ctx, c, owner); err != nil {
		return nil, err
	}
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	if err := w.skip(ctx, may.skips); err != nil {
		return nil, err
	}
	if err := w.e.Store.RecordGates(ctx, w.e.Actor, task.PipelineID, w.run.ID, w.rows[task.ID].ID, may.gates); err != nil {
		return nil, err
	}
	if w.only != nil {
		return w.runThese(ctx)
	}
	return w.runOne(ctx, task, w.endIfOver)
}

// runThese runs the wanted tasks as far as their dependencies let them, and ends the run if nothing else is left in it.
func (w *work) runThese(ctx context.Context) (*RunDocument, error) {
	if w.e.Observer != nil {
		doc, err := w.e.document(ctx, w.run.ID)
		if err != nil {
			return nil, err
		}
		w.e.Observer.RunStarted(doc)
	}
	stopped, err := w.loop(ctx)
	switch {
	case err != nil:
		return nil, err
	case stopped && w.unfinished() && w.paused != nil && !w.e.stopped(ctx):
		return nil, w.paused
	case stopped && w.unfinished():
		return nil, fault.New(fault.Interrupted, "interrupted").WithHint("etl-craft run --pipeline %s --run-id %d", w.g.Pipeline.Code, w.run.ID)
	}
	durable := context.WithoutCancel(ctx)
	if w.flow.pending+w.flow.running == 0 {
		return w.end(durable, w.e.id)
	}
	if err := w.e.Store.ReleaseRun(durable, w.run.ID, w.e.id); err != nil {
		return nil, err
	}
	doc, err := w.e.document(durable, w.run.ID)
	if err != nil {
		return nil, err
	}
	if w.e.Observer != nil {
		w.e.Observer.RunEnded(doc)
	}
	return doc, w.failed(doc)
}

// unfinished reports whether a wanted task is left.
func (w *work) unfinished() bool {
	for id := range w.only {
		if i, ok := w.flow.byID[id]; ok && !w.flow.nodes[i].state.ended() {
			return true
		}
	}
	return false
}

// failed is the error of the wanted tasks that failed in a run that stays open, nil when none did.
func (w *work) failed(doc *RunDocument) error {
	var failed []string
	for _, t := range doc.Tasks {
		if w.only[t.TaskID] && (t.Status == store.Failed || t.Status == store.Cancelled) {
			failed = append(failed, t.Task)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fault.New(fault.RunFailed, "%d of %d tasks failed again in run %d of pipeline %s (%s)", len(failed), len(w.only), doc.PipelineRunID, doc.Pipeline, strings.Join(failed, ", ")).
		WithHint("etl-craft run --pipeline %s --run-id %d", doc.Pipeline, doc.PipelineRunID)
}
