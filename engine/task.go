package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// runTask runs one task of the run that the request means. The run belongs to nobody meanwhile, so that other tasks of it
// may run in other processes.
func (e *Engine) runTask(ctx context.Context, g *store.Graph, req RunRequest) (*RunDocument, error) {
	task, err := findTask(g, req.Task)
	if err != nil {
		return nil, err
	}
	if req.again() {
		return e.runTaskAgain(ctx, g, task, req)
	}
	c, err := e.choose(ctx, g, req)
	if err != nil {
		return nil, err
	}
	if err := e.mayStart(ctx, g, c); err != nil {
		return nil, err
	}
	if c.run == nil {
		if c.gates, err = e.gatesOfNew(ctx, g, c, false); err != nil {
			return nil, err
		}
	}
	if _, err := e.taskMayStart(ctx, g, c, task); err != nil {
		return nil, err
	}
	if err := e.connectUnlessStopped(ctx); err != nil {
		return nil, err
	}
	w, err := e.newWork(ctx, g)
	if err != nil {
		return nil, err
	}
	if w.run, err = e.takeNow(ctx, g, &c, ""); err != nil {
		return e.joinRun(ctx, g, req, c.run, err)
	}
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	if c.run != nil {
		if err := w.waitAgain(ctx, c.run.Ended(), task); err != nil {
			return nil, err
		}
	}
	// Another process may have run the task while this one waited for the warehouse.
	may, err := e.taskMayStart(ctx, g, choice{run: w.run, asked: c.asked}, task)
	if err != nil {
		return nil, err
	}
	if err := w.skip(ctx, may.skips); err != nil {
		return nil, err
	}
	if err := e.Store.RecordGates(ctx, e.Actor, task.PipelineID, w.run.ID, w.rows[task.ID].ID, may.gates); err != nil {
		return nil, err
	}
	return w.runOne(ctx, task, w.endIfOver)
}

// joinRun runs the task in the run that another process has just made, or reopened, for a task of its own. Otherwise refused
// says why not.
func (e *Engine) joinRun(ctx context.Context, g *store.Graph, req RunRequest, chosen *store.Run, refused error) (*RunDocument, error) {
	if !fault.Has(refused, fault.RunActive) && !(chosen != nil && fault.Has(refused, fault.RunOwned)) {
		return nil, refused
	}
	run, err := e.Store.UnfinishedRun(ctx, g.Pipeline.ID)
	switch {
	case err != nil:
		return nil, err
	case run == nil, chosen != nil && (run.ID != chosen.ID || run.OwnerID != ""):
		return nil, refused
	}
	return e.runTask(ctx, g, req)
}

// waitAgain makes tasks PENDING that are to be tried again: those that failed in a run that had ended, and those that were
// skipped because of a failure, when the task that failed gets another attempt.
func (w *work) waitAgain(ctx context.Context, reopened bool, task *store.Task) error {
	scope := store.ResetSkipped
	switch {
	case reopened:
		scope = store.ResetFailed
	case w.rows[task.ID].Status != store.Failed:
		return nil
	}
	if err := w.e.Store.ResetTasks(ctx, w.run.ID, scope); err != nil {
		return err
	}
	return w.load(ctx)
}

func findTask(g *store.Graph, code string) (*store.Task, error) {
	if task := g.Task(code); task != nil {
		return task, nil
	}
	codes := make([]string, len(g.Tasks))
	for i := range g.Tasks {
		codes[i] = g.Tasks[i].Code
	}
	err := fault.New(fault.TaskNotFound, "pipeline %s has no active task %s", g.Pipeline.Code, code)
	err.Pipeline, err.Task = g.Pipeline.Code, code
	if near := nearest.Of(code, codes); near != "" {
		return nil, err.WithHint("did you mean %s?", near)
	}
	return nil, err.WithHint("etl-craft graph --pipeline %s", g.Pipeline.Code)
}

// permission is what has to be recorded before a task starts.
type permission struct {
	skips []skipped            // ancestors that cannot run any more
	gates []store.GateDecision // its dependencies on other pipelines
}

// taskMayStart judges one task by the states of the chosen run as they would be once it is taken, and changes nothing.
func (e *Engine) taskMayStart(ctx context.Context, g *store.Graph, c choice, task *store.Task) (permission, error) {
	var may permission
	states := make(map[int64]state, len(g.Tasks))
	for i := range g.Tasks {
		states[g.Tasks[i].ID] = state{status: store.Pending}
	}
	date := c.date
	if c.run != nil {
		date = c.run.Date
		if err := e.foresee(ctx, c, task, states); err != nil {
			return may, err
		}
	}
	f := newFlow(g.Tasks, states)
	d := f.decide()
	for _, gated := range d.gated {
		if gated.ID != task.ID {
			continue
		}
		v, err := e.taskGatesIn(ctx, task, c.run, date, f.needed(task.ID))
		if err != nil {
			return may, err
		}
		may.gates = v.decisions
		f.judge(task.ID, v.held, v.refused()...)
		more := f.decide()
		d.ready = append(d.ready, more.ready...)
	}
	for _, ready := range d.ready {
		if ready.ID == task.ID {
			ancestors := f.ancestors(task.ID)
			for _, s := range d.skips {
				if ancestors[s.task.ID] {
					may.skips = append(may.skips, s)
				}
			}
			return may, nil
		}
	}
	return may, notReady(g, f, task, c.asked)
}

// foresee fills in the states of a run after take, with task tried again when it failed.
func (e *Engine) foresee(ctx context.Context, c choice, task *store.Task, states map[int64]state) error {
	rows, err := e.Store.TaskRuns(ctx, c.run.ID)
	if err != nil {
		return err
	}
	for i := range rows {
		s := rowState(&rows[i])
		failed := s.status == store.Failed || s.status == store.Skipped && s.reason == store.SkipUpstream
		if c.run.Ended() && failed && c.again == nil {
			s = state{status: store.Pending}
		}
		if rows[i].TaskID == task.ID {
			if s, err = e.refuseTask(ctx, c, &rows[i], s); err != nil {
				return err
			}
		}
		states[rows[i].TaskID] = s
	}
	return nil
}

// refuseTask fails with TASK_STATE when the task cannot be tried now; otherwise it is PENDING.
func (e *Engine) refuseTask(ctx context.Context, c choice, row *store.TaskRun, s state) (state, error) {
	run := c.run
	switch s.status {
	case store.Success, store.Skipped, store.Cancelled:
		if c.again != nil {
			break
		}
		err := taskState(run, row, "is %s in run %d and runs no second time", s.status, run.ID)
		return s, fault.As(err).WithHint("etl-craft run --pipeline %s --task %s --run-id %d --rerun --reason TEXT", run.PipelineCode, row.TaskCode, run.ID)
	case store.InProgress:
		live, err := e.liveAttempt(ctx, row)
		if err != nil {
			return s, err
		}
		if live != nil {
			gone, err := e.gone(ctx, live.OwnerID, live.LeaseExpired)
			if err != nil {
				return s, err
			}
			if !gone {
				return s, taskState(run, row, "is running, by %s", ownerText(live.OwnerID))
			}
		}
	}
	return state{status: store.Pending}, nil
}

func taskState(run *store.Run, row *store.TaskRun, format string, args ...any) error {
	err := fault.New(fault.TaskState, "task %s "+format, append([]any{row.TaskCode}, args...)...).
		WithHint("etl-craft status --pipeline %s --run-id %d", run.PipelineCode, run.ID)
	err.Task = row.TaskCode
	return err
}

// notReady says what the task waits for. asked are the flags of the call that say which run is meant.
func notReady(g *store.Graph, f *flow, task *store.Task, asked string) error {
	var waits []string
	for _, edge := range task.DependsOn {
		i, ok := f.byID[edge.TaskID]
		if !ok {
			waits = append(waits, fmt.Sprintf("%s.%s on %s", edge.PipelineCode, edge.TaskCode, edge.Type))
			continue
		}
		if s := f.nodes[i].state; !holds(edge.Type, s) {
			waits = append(waits, fmt.Sprintf("%s on %s, which is %s", edge.TaskCode, edge.Type, s.status))
		}
	}
	err := fault.New(fault.NotReady, "task %s waits for %s", task.Code, strings.Join(waits, "; ")).
		WithHint("etl-craft run --pipeline %s%s", g.Pipeline.Code, asked)
	err.Task = task.Code
	return err
}

// runOne runs one task and then does what has to follow. Error and exit code are the task's.
func (w *work) runOne(ctx context.Context, task *store.Task, then func(context.Context) error) (*RunDocument, error) {
	running, cancel := context.WithCancelCause(ctx)
	beats := w.beat(running)
	defer beats.Wait()
	defer w.watchEnd(running, cancel).Wait()
	defer cancel(nil)

	w.flow.start(task.ID)
	if w.e.Observer != nil {
		doc, err := w.e.document(ctx, w.run.ID)
		if err != nil {
			return nil, err
		}
		w.e.Observer.RunStarted(doc)
	}
	end, err := w.untilSettled(running, task)
	if gone := endedBy(running); gone != nil && end.state.status != store.Success {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	switch {
	case end.err != nil:
		return nil, end.err
	case end.paused:
		return nil, fault.New(fault.Paused, "pipeline %s was paused meanwhile", w.g.Pipeline.Code).WithHint("etl-craft resume --pipeline %s", w.g.Pipeline.Code)
	case end.state.status == store.InProgress:
		return nil, taskState(w.run, w.rows[task.ID], "was started by another process")
	case ctx.Err() != nil && end.state.status != store.Success:
		return nil, fault.New(fault.Interrupted, "interrupted").
			WithHint("etl-craft run --pipeline %s --task %s --run-id %d", w.g.Pipeline.Code, task.Code, w.run.ID)
	}
	durable := context.WithoutCancel(ctx)
	if err := then(durable); err != nil {
		return nil, err
	}
	doc, err := w.e.document(durable, w.run.ID)
	if err != nil {
		return nil, err
	}
	if w.e.Observer != nil {
		w.e.Observer.RunEnded(doc)
	}
	if end.fault == nil {
		return doc, nil
	}
	failed := *end.fault
	failed.Task, failed.Pipeline = task.Code, w.g.Pipeline.Code
	if failed.Code != fault.LockTimeout { // with an exit code of its own: the caller may try again
		failed.Code = fault.RunFailed
	}
	return doc, &failed
}

// untilSettled runs a task until it needs no further try.
func (w *work) untilSettled(ctx context.Context, task *store.Task) (attemptEnd, error) {
	due := w.due(task)
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	for {
		if w.e.stopped(ctx) {
			return attemptEnd{}, interrupted(w.g.Pipeline.Code)
		}
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-watch.C:
				if n := w.look(ctx); n.ended != nil {
					return attemptEnd{}, n.ended
				} else if n.paused != nil {
					return attemptEnd{}, n.paused
				}
			case <-w.e.Stop:
			case <-ctx.Done():
			}
			continue
		}
		end := w.attempt(ctx, task, w.rows[task.ID])
		if !end.retry || end.err != nil {
			return end, nil
		}
		w.note(end)
		w.flow.start(task.ID)
		due = end.due
	}
}

// endIfOver ends the run when no task of it can run any more.
func (w *work) endIfOver(ctx context.Context) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	d := w.flow.decide()
	if len(d.ready)+len(d.gated)+w.flow.running+w.flow.pending > 0 {
		return nil
	}
	switch err := w.skip(ctx, d.skips); {
	case fault.Has(err, fault.RunUnfinished): // an operator was faster
		return w.endIfOver(ctx)
	case err != nil:
		return err
	}
	_, err := w.end(ctx, "")
	var failed *fault.Error
	if errors.As(err, &failed) && (failed.Code == fault.RunFailed || failed.Code == fault.RunEnded || failed.Code == fault.RunOwned || failed.Code == fault.RunUnfinished) {
		return nil // the last two: another process has started a task or taken the run; it will end it
	}
	return err
}
