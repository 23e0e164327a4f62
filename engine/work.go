package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
	"github.com/etl-craft/etl-craft/internal/shell"
	"github.com/etl-craft/etl-craft/locks"
)

// heartbeat is how often a process says that it lives; store.Lease is how long that is believed.
const heartbeat = 15 * time.Second

// work is a run that this process works on.
type work struct {
	e      *Engine
	g      *store.Graph
	run    *store.Run
	owner  string // of the run while this process works on it: itself, or "" when others may work on it too
	env    *handlers.Env
	alive  locks.Lock // proves to others that this process lives
	rows   map[int64]*store.TaskRun
	flow   *flow
	atGate map[int64]gateWait
	only   map[int64]bool // the tasks that this process is to run, nil for all
	bypass string         // why gates are not asked, "" when they are
	ahead  time.Duration  // of this process's clock, the Engine DB's
	seen   int64          // the newest intervention that rows take into account
	// overtaken are tasks that run here, but whose rows said otherwise when they were read: an attempt had just ended, and a
	// person may have changed the task since.
	overtaken map[int64]bool
	paused    error // why no more tasks start, nil while they may
}

func (e *Engine) newWork(ctx context.Context, g *store.Graph) (*work, error) {
	alive, err := e.beAlive(ctx)
	if err != nil {
		return nil, err
	}
	return &work{e: e, g: g, env: e.env(), alive: alive, atGate: map[int64]gateWait{}}, nil
}

// load reads the tasks of the run.
func (w *work) load(ctx context.Context) error { return w.loadBeside(ctx, nil) }

// loadBeside reads the tasks of the run; those in mine are running here.
func (w *work) loadBeside(ctx context.Context, mine map[int64]bool) error {
	now, err := w.e.Store.Signal(ctx, w.run.ID) // before the rows, so that nothing is missed
	if err != nil {
		return err
	}
	w.seen = now.Intervention
	rows, err := w.e.Store.TaskRuns(ctx, w.run.ID)
	if err != nil {
		return err
	}
	w.rows = make(map[int64]*store.TaskRun, len(rows))
	for i := range rows {
		w.rows[rows[i].TaskID] = &rows[i]
		if rows[i].NotBefore == nil || w.ahead != 0 {
			continue
		}
		now, err := w.e.Store.Now(ctx)
		if err != nil {
			return err
		}
		w.ahead = time.Until(now)
	}
	states := rowStates(rows)
	w.overtaken = map[int64]bool{}
	for id := range mine {
		w.overtaken[id] = states[id].status != store.InProgress
		states[id] = state{status: store.InProgress}
	}
	w.flow = newFlow(w.g.Tasks, states)
	return nil
}

func rowStates(rows []store.TaskRun) map[int64]state {
	states := make(map[int64]state, len(rows))
	for i := range rows {
		states[rows[i].TaskID] = rowState(&rows[i])
	}
	return states
}

// runAll runs every task of the run that can run, and ends the run when nothing is left.
func (w *work) runAll(ctx context.Context) (*RunDocument, error) {
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	if w.e.Observer != nil {
		doc, err := w.e.document(ctx, w.run.ID)
		if err != nil {
			return nil, err
		}
		w.e.Observer.RunStarted(doc)
	}
	stop, err := w.loop(ctx)
	for err == nil && !stop {
		// Tasks run in other processes. Those that have ended meanwhile, or were marked, may let others start.
		elsewhere, changed := w.flow.running, w.look(ctx).changed
		if elsewhere == 0 && !changed {
			break
		}
		if err = w.load(ctx); err != nil || w.flow.running == elsewhere && !changed {
			break
		}
		stop, err = w.loop(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case w.flow.running > 0:
		return nil, w.runsElsewhere(ctx)
	case w.flow.pending > 0 && stop && w.paused != nil && !w.e.stopped(ctx):
		return nil, w.paused
	case w.flow.pending > 0 && stop:
		return nil, interrupted(w.g.Pipeline.Code)
	case w.flow.pending > 0:
		return nil, fault.New(fault.RunUnfinished, "run %d of pipeline %s has tasks that can neither run nor be skipped", w.run.ID, w.g.Pipeline.Code)
	}
	doc, err := w.end(context.WithoutCancel(ctx), w.e.id)
	if fault.Has(err, fault.RunUnfinished) && w.look(ctx).changed {
		return w.runAll(ctx) // an operator was faster than the end
	}
	return doc, err
}

// runsElsewhere says which tasks other processes run.
func (w *work) runsElsewhere(ctx context.Context) error {
	live, err := w.e.Store.LiveAttempts(ctx, w.g.Pipeline.ID)
	if err != nil {
		return err
	}
	var tasks []string
	for _, a := range live {
		if a.RunID == w.run.ID && a.OwnerID != w.e.id {
			tasks = append(tasks, fmt.Sprintf("%s (%s)", a.Task, ownerText(a.OwnerID)))
		}
	}
	which := ""
	if len(tasks) > 0 { // they may have ended in this moment
		which = ": " + strings.Join(tasks, ", ")
	}
	return fault.New(fault.RunUnfinished, "run %d of pipeline %s waits for tasks that other processes run%s", w.run.ID, w.g.Pipeline.Code, which).
		WithHint("etl-craft run --pipeline %s", w.g.Pipeline.Code)
}

// loop dispatches tasks until nothing runs here and nothing more may start. It reports whether it was told to stop.
func (w *work) loop(parent context.Context) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	beats := w.beat(ctx)
	defer beats.Wait()
	defer cancel(nil)

	var waiting queue
	ended := make(chan attemptEnd)
	here := 0
	mine := map[int64]bool{} // the tasks that run here
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	stop, killed, lost := w.e.Stop, ctx.Done(), w.alive.Lost()
	took := func(end attemptEnd) {
		here--
		delete(mine, end.task.ID)
		err = joined(err, end.err)
		if end.err != nil {
			cancel(end.err)
		}
		w.note(end)
		if w.overtaken[end.task.ID] && err == nil {
			waiting = queue{}
			if err = w.reload(ctx, mine); err != nil {
				cancel(err)
			}
		}
		stopped = end.paused && w.hold(w.look(ctx)) || stopped
	}
	heard := func(n news) {
		switch {
		case n.ended != nil: // which says more than an error that came of it
			err = n.ended
			cancel(err)
		case err != nil:
		case n.changed:
			waiting = queue{}
			if err = w.reload(ctx, mine); err != nil {
				cancel(err)
			}
		}
		stopped = w.hold(n) || stopped
	}
	for {
		if w.e.stopped(ctx) {
			stopped = true
		}
		if !stopped && err == nil {
			if err = w.lookAgain(ctx); err != nil {
				cancel(err)
			}
		}
		if !stopped && err == nil {
			var more []*store.Task
			more, err = w.advance(ctx)
			if fault.Has(err, fault.RunUnfinished) { // an operator was faster
				waiting = queue{}
				if err = w.reload(ctx, mine); err == nil {
					continue
				}
			}
			if err != nil {
				cancel(err)
			}
			for _, task := range w.wanted(more) {
				waiting.add(task, w.due(task))
			}
		}
		for !stopped && err == nil && here < w.e.Config.Orchestration.MaxParallelTasks {
			task := waiting.next()
			if task == nil {
				break
			}
			w.flow.start(task.ID)
			here++
			mine[task.ID] = true
			row := w.rows[task.ID]
			go func() { ended <- w.attempt(ctx, task, row) }()
		}
		if here == 0 && (stopped || err != nil || len(waiting.later)+len(w.atGate) == 0) {
			return stopped, err
		}
		var due, gate <-chan time.Time // nil while nothing would follow: what has rung rings on
		if !stopped && err == nil {
			gate = w.gateAlarm()
			if here < w.e.Config.Orchestration.MaxParallelTasks {
				due = waiting.alarm()
			}
		}
		// Several things can have happened since. They are taken in an order, so that nothing depends on chance.
		select {
		case end := <-ended:
			took(end)
			continue
		default:
		}
		select {
		case <-watch.C:
			heard(w.look(ctx))
			continue
		default:
		}
		select {
		case <-due:
		case <-gate:
		case <-watch.C:
			heard(w.look(ctx))
		case end := <-ended:
			took(end)
		case <-stop:
			stopped, stop = true, nil
			w.e.Log.Info("no more tasks start, running ones finish; interrupt again to stop them", "pipeline", w.g.Pipeline.Code)
		case <-killed:
			stopped, killed = true, nil
		case <-lost:
			lost = nil
			err = joined(err, fault.New(fault.LockLost, "the lock that proves this process alive was lost, so another may take the run over"))
			cancel(err)
		}
	}
}

// joined adds an error to another one. All locks of a process are lost together, which is said once.
func joined(err, more error) error {
	if fault.Has(err, fault.LockLost) && fault.Has(more, fault.LockLost) {
		return err
	}
	return errors.Join(err, more)
}

// due is when a task may start: later than now when a retry is waited for since before.
func (w *work) due(t *store.Task) time.Time {
	if due := w.rows[t.ID].NotBefore; due != nil {
		return due.Add(-w.ahead)
	}
	return time.Time{}
}

// note tells the flow how an attempt ended.
func (w *work) note(end attemptEnd) {
	row := w.rows[end.task.ID]
	row.Attempts, row.Status = max(row.Attempts, end.number), end.state.status
	switch {
	case end.state.status == store.Pending:
		if end.retry {
			due := end.due.Add(w.ahead)
			row.NotBefore = &due
		}
		w.flow.requeue(end.task.ID)
	case end.state.ended():
		w.flow.settle(end.task.ID, end.state)
	}
}

// advance records what follows from the states so far and returns the tasks that may start.
func (w *work) advance(ctx context.Context) ([]*store.Task, error) {
	var ready []*store.Task
	for {
		d := w.flow.decide()
		ready = append(ready, d.ready...)
		if err := w.skip(ctx, d.skips); err != nil {
			return nil, err
		}
		if len(d.gated) == 0 {
			return ready, nil
		}
		if err := w.openGates(ctx, w.wanted(d.gated)); err != nil {
			return nil, err
		}
	}
}

func (w *work) skip(ctx context.Context, list []skipped) error {
	skips := make([]store.Skip, len(list))
	for i, s := range list {
		skips[i] = store.Skip{TaskRunID: w.rows[s.task.ID].ID, Reason: s.reason, Message: skipText(s)}
	}
	if err := w.e.Store.SkipTasks(ctx, w.run.ID, store.Claim{Owner: w.owner, Seen: &w.seen}, skips); err != nil {
		return err
	}
	for _, s := range list {
		row := *w.rows[s.task.ID]
		row.Status, row.SkipReason = store.Skipped, s.reason
		w.e.Log.Info("skipped: "+skipText(s), "pipeline", w.g.Pipeline.Code, "task", s.task.Code)
		if w.e.Observer != nil {
			w.e.Observer.TaskEnded(taskDocument(&row))
		}
	}
	return nil
}

func skipText(s skipped) string {
	var names []string
	for _, e := range s.lost {
		name := e.TaskCode
		if e.PipelineID != s.task.PipelineID {
			name = e.PipelineCode + "." + e.TaskCode
		}
		names = append(names, name+" on "+e.Type)
	}
	why := "not enough dependencies hold"
	switch s.reason {
	case store.SkipUpstream:
		why = "a task it depends on failed"
	case store.SkipGate:
		why = "a task of another pipeline is not ready"
	}
	if len(names) == 0 {
		return why
	}
	return fmt.Sprintf("%s (%s)", why, strings.Join(names, ", "))
}

// beat keeps the leases of this process alive until ctx ends.
func (w *work) beat(ctx context.Context) *sync.WaitGroup {
	var beats sync.WaitGroup
	beats.Add(1)
	go func() {
		defer beats.Done()
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := w.e.Store.Heartbeat(ctx, w.e.id, store.Lease); err != nil && ctx.Err() == nil {
				w.e.Log.Warn("the Engine DB could not be told that this process lives: " + err.Error())
			}
			w.e.deliverSoon(ctx)
		}
	}()
	return &beats
}

// end ends a run all of whose tasks have ended.
func (w *work) end(ctx context.Context, owner string) (*RunDocument, error) {
	now, err := w.e.Store.Signal(ctx, w.run.ID)
	if err != nil {
		return nil, err
	}
	rows, err := w.e.Store.TaskRuns(ctx, w.run.ID)
	if err != nil {
		return nil, err
	}
	states := make([]state, len(rows))
	for i := range rows {
		states[i] = rowState(&rows[i])
	}
	status, reason := outcome(states)
	faultpoint.Hit("before run end")
	err = w.e.Store.EndRun(ctx, store.RunEnd{RunID: w.run.ID, Owner: owner, Status: status, SkipReason: reason, Actor: w.e.Actor, Consume: true, Seen: &now.Intervention})
	if err != nil {
		return nil, err
	}
	faultpoint.Hit("after run end")
	run, err := w.e.Store.RunByID(ctx, w.run.ID)
	if err != nil {
		return nil, err
	}
	doc := runDocument(run, rows)
	w.e.Log.Info(fmt.Sprintf("run %d ended %s", run.ID, run.Status), "pipeline", w.g.Pipeline.Code)
	if w.e.Observer != nil {
		w.e.Observer.RunEnded(doc)
	}
	return doc, w.e.failure(doc)
}

// failure is the error of a run that FAILED, nil otherwise.
func (e *Engine) failure(doc *RunDocument) error {
	if doc.Status != store.Failed {
		return nil
	}
	var failed []string
	for _, t := range doc.Tasks {
		if t.Status == store.Failed || t.Status == store.Cancelled {
			failed = append(failed, t.Task)
		}
	}
	names := strings.Join(failed, ", ")
	if len(failed) > 5 {
		names = strings.Join(failed[:5], ", ") + ", …"
	}
	err := fault.New(fault.RunFailed, "run %d of pipeline %s failed: %d of %d tasks failed (%s)", doc.PipelineRunID, doc.Pipeline, len(failed), len(doc.Tasks), names).
		WithHint("etl-craft run --pipeline %s --run-id %d", doc.Pipeline, doc.PipelineRunID)
	if e.remote() && len(failed) > 0 {
		err = err.WithHint("run it again, then --finalize-only: etl-craft run --pipeline %s --task %s --run-key %s", doc.Pipeline, failed[0], shell.Word(doc.RunKey))
	}
	err.Pipeline = doc.Pipeline
	return err
}
