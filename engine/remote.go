package engine

import (
	"context"
	"fmt"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// runRemote does one of the three things that an outside orchestrator asks for. Order and gates are its own.
func (e *Engine) runRemote(ctx context.Context, g *store.Graph, req RunRequest) (*RunDocument, error) {
	code := g.Pipeline.Code
	if !req.InitOnly && !req.FinalizeOnly && req.Task == "" {
		return nil, fault.New(fault.WrongMode, "orchestration.mode is remote, so an orchestrator runs the tasks of pipeline %s", code).
			WithHint("etl-craft run --pipeline %s --init-only --run-key KEY, then --task T for each task, then --finalize-only", code)
	}
	if req.RunID == 0 && req.RunKey == "" {
		return nil, fault.New(fault.Usage, "orchestration.mode remote needs --run-key").WithHint("give all calls of one run the same key")
	}
	run, err := e.named(ctx, g, req.RunID, req.RunKey)
	if err != nil {
		return nil, err
	}
	if run != nil {
		if err := refuseRun(run, req.RunDate); err != nil {
			return nil, err
		}
	}
	if req.InitOnly {
		return e.initRun(ctx, g, run, req)
	}
	if run == nil {
		return nil, noRun(g, "run with the key %s", req.RunKey)
	}
	if req.FinalizeOnly {
		return e.finalizeRun(ctx, g, run)
	}
	return e.remoteTask(ctx, g, run, req.Task)
}

// initRun makes the run of a key unfinished: a new one, or the FAILED one.
func (e *Engine) initRun(ctx context.Context, g *store.Graph, run *store.Run, req RunRequest) (*RunDocument, error) {
	if run != nil && run.Status != store.Failed {
		return e.document(ctx, run.ID)
	}
	if err := invalid(g.Pipeline.Code, e.problems([]*store.Graph{g}, false)); err != nil {
		return nil, err
	}
	c := choice{run: run, named: true, key: req.RunKey, date: req.RunDate}
	if c.date == "" {
		var err error
		if c.date, err = e.today(ctx); err != nil {
			return nil, err
		}
	}
	taken, err := e.takeTogether(ctx, g, c)
	if err != nil {
		return nil, err
	}
	return e.document(ctx, taken.ID)
}

// takeTogether takes a run for nobody in particular, as several calls of an orchestrator may do at once: what one of them
// has done meanwhile is done for all.
func (e *Engine) takeTogether(ctx context.Context, g *store.Graph, c choice) (*store.Run, error) {
	for {
		run, err := e.take(ctx, g, c, "")
		if !fault.Has(err, fault.RunActive) && !fault.Has(err, fault.RunOwned) && !fault.Has(err, fault.RunEnded) {
			return run, err
		}
		var now *store.Run
		var readErr error
		if c.run == nil {
			now, readErr = e.Store.RunByKey(ctx, g.Pipeline.ID, c.key)
		} else {
			now, readErr = e.Store.RunByID(ctx, c.run.ID)
		}
		switch {
		case readErr != nil:
			return nil, readErr
		case now == nil, now.Status == store.Cancelled, c.run != nil && now.Status == c.run.Status && now.OwnerID == c.run.OwnerID:
			return nil, err
		case c.run == nil && now.Ended():
			return now, nil
		}
		c.run = now
	}
}

// remoteTask runs a task because the orchestrator asks for it, whatever its state and dependencies are.
func (e *Engine) remoteTask(ctx context.Context, g *store.Graph, run *store.Run, code string) (*RunDocument, error) {
	task, err := findTask(g, code)
	if err != nil {
		return nil, err
	}
	c := choice{run: run, named: true}
	if err := e.mayStart(ctx, g, c); err != nil {
		return nil, err
	}
	tried, err := e.triedSoFar(ctx, run, task)
	if err != nil {
		return nil, err
	}
	if err := e.connectUnlessStopped(ctx); err != nil {
		return nil, err
	}
	w, err := e.newWork(ctx, g)
	if err != nil {
		return nil, err
	}
	if w.run, err = e.takeTogether(ctx, g, c); err != nil {
		return nil, err
	}
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	switch row := w.rows[task.ID]; {
	case row.Status == store.InProgress:
		return nil, taskState(w.run, row, "is running")
	case row.Attempts != tried:
		return nil, taskState(w.run, row, "was run by another process meanwhile and is %s", row.Status)
	}
	return w.runOne(ctx, task, func(context.Context) error { return nil })
}

// triedSoFar is how many attempts a task has had; TASK_STATE when one is under way. A call that then waits for the warehouse
// while another one runs the task must not run it once more.
func (e *Engine) triedSoFar(ctx context.Context, run *store.Run, task *store.Task) (int, error) {
	rows, err := e.Store.TaskRuns(ctx, run.ID)
	if err != nil {
		return 0, err
	}
	for i := range rows {
		if rows[i].TaskID == task.ID {
			_, err := e.refuseTask(ctx, choice{run: run, again: &store.Again{}}, &rows[i], rowState(&rows[i]))
			return rows[i].Attempts, err
		}
	}
	return 0, nil // it joins the run
}

// finalizeRun ends a run: tasks that never ran are SKIPPED, and those whose process died FAILED.
func (e *Engine) finalizeRun(ctx context.Context, g *store.Graph, run *store.Run) (*RunDocument, error) {
	if err := e.noteRun(ctx, run.ID); err != nil {
		return nil, err
	}
	if run.Ended() {
		return e.endedRun(ctx, run.ID)
	}
	doc, err := e.endRemote(ctx, g, run)
	if !fault.Has(err, fault.RunEnded) {
		return doc, err
	}
	if run, err = e.Store.RunByID(ctx, run.ID); err != nil {
		return nil, err
	}
	if err := refuseRun(run, ""); err != nil {
		return nil, err
	}
	return e.endedRun(ctx, run.ID) // which another call was faster to end
}

// endedRun is the answer of the call that ended a run, once more.
func (e *Engine) endedRun(ctx context.Context, runID int64) (*RunDocument, error) {
	doc, err := e.document(ctx, runID)
	if err != nil {
		return nil, err
	}
	return doc, e.failure(doc)
}

func (e *Engine) endRemote(ctx context.Context, g *store.Graph, run *store.Run) (*RunDocument, error) {
	rows, err := e.Store.TaskRuns(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	var dead []*store.Attempt
	var skips []store.Skip
	for i := range rows {
		if rows[i].Status == store.Pending {
			skips = append(skips, store.Skip{TaskRunID: rows[i].ID, Reason: store.SkipOrchestrator, Message: "not run by the orchestrator"})
			continue
		}
		live, err := e.liveAttempt(ctx, &rows[i])
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		gone, err := e.gone(ctx, live.OwnerID, live.LeaseExpired)
		if err != nil {
			return nil, err
		}
		if !gone {
			return nil, fault.New(fault.RunUnfinished, "task %s of run %d is running, by %s", rows[i].TaskCode, run.ID, ownerText(live.OwnerID)).
				WithHint("finalize the run when its tasks have ended")
		}
		dead = append(dead, live)
	}
	for _, a := range dead {
		if err := e.failLost(ctx, a); err != nil {
			return nil, err
		}
	}
	if err := e.Store.SkipTasks(ctx, run.ID, store.Claim{}, skips); err != nil {
		return nil, err
	}
	w := &work{e: e, g: g, run: run}
	return w.end(ctx, run.OwnerID)
}

// failLost ends the attempt of a process that is gone, and fails its task: in a run that ends there is no other try.
func (e *Engine) failLost(ctx context.Context, a *store.Attempt) error {
	return e.Store.FinishAttempt(ctx, store.Outcome{
		AttemptID: a.ID, Owner: a.OwnerID, Status: store.Lost, TaskStatus: store.Failed, ErrorCode: string(fault.AttemptLost),
		Error: fmt.Sprintf("%s, which ran the attempt, died", ownerText(a.OwnerID)), Retryable: true,
	})
}
