package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// OperatorRequest says what an operator wants done to a pipeline, a run or a task of it. Without id and key it is the
// unfinished run. The zero value of a field is "not given".
type OperatorRequest struct {
	Pipeline string `json:"pipeline"`
	RunID    int64  `json:"run_id,omitempty"`
	RunKey   string `json:"run_key,omitempty"`
	Task     string `json:"task,omitempty"`
	Status   string `json:"status,omitempty"` // SUCCESS, FAILED or SKIPPED, for Mark
	Rows     *int64 `json:"rows,omitempty"`   // ROWS_WRITTEN of a task marked SUCCESS
	NewRun   bool   `json:"new_run,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// PauseDocument is etl-craft/pause/1, the answer of pause and resume.
type PauseDocument struct {
	Schema        string  `json:"schema"`
	Pipeline      string  `json:"pipeline"`
	Paused        bool    `json:"paused"`
	Changed       bool    `json:"changed"` // false when resume found no pause
	PausedBy      *string `json:"paused_by"`
	PausedAt      *Time   `json:"paused_at"`
	Reason        *string `json:"reason"`
	PipelineRunID *int64  `json:"pipeline_run_id"` // the unfinished run
}

func (r *OperatorRequest) check() error {
	switch {
	case r.Pipeline == "":
		return fault.New(fault.Usage, "--pipeline is missing").WithHint("etl-craft list")
	case r.RunID < 0:
		return fault.New(fault.Usage, "--run-id is a number above 0")
	case r.RunID != 0 && r.RunKey != "":
		return fault.New(fault.Usage, "--run-id and --run-key exclude each other")
	}
	return nil
}

func (r *OperatorRequest) checkReason(command string) error {
	if err := r.check(); err != nil {
		return err
	}
	if strings.TrimSpace(r.Reason) == "" {
		return fault.New(fault.Usage, "--reason is missing").
			WithHint("etl-craft %s --pipeline %s … --reason \"why\"", command, r.Pipeline)
	}
	return nil
}

func (r *OperatorRequest) checkMark() error {
	if err := r.checkReason("mark"); err != nil {
		return err
	}
	switch r.Status {
	case store.Success, store.Failed, store.Skipped:
	default:
		return fault.New(fault.Usage, "--status is %q; it takes SUCCESS, FAILED, SKIPPED", r.Status)
	}
	switch {
	case r.Rows != nil && (r.Task == "" || r.Status != store.Success):
		return fault.New(fault.Usage, "--rows is for --task with --status SUCCESS")
	case r.Rows != nil && *r.Rows < 0:
		return fault.New(fault.Usage, "--rows is a number, 0 or above")
	case r.NewRun && (r.RunID != 0 || r.RunKey != ""):
		return fault.New(fault.Usage, "--new-run excludes --run-id and --run-key")
	case r.NewRun && r.Task != "":
		return fault.New(fault.Usage, "--new-run excludes --task")
	}
	return nil
}

// operate records a command of an operator and does it.
func (e *Engine) operate(ctx context.Context, command string, req OperatorRequest, do func(context.Context, *store.Graph) error) error {
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return err
	}
	arguments, err := json.Marshal(req)
	if err != nil {
		return err
	}
	ctx = findingRun(ctx)
	err = e.audited(ctx, store.ActionRecord{Command: command, Arguments: string(arguments), PipelineID: g.Pipeline.ID}, func() error {
		if e.remote() && command != "resume" {
			return fault.New(fault.WrongMode, "orchestration.mode is remote, so the orchestrator decides about runs of pipeline %s, not %s", g.Pipeline.Code, command)
		}
		return do(ctx, g)
	})
	return inPipeline(err, g.Pipeline.Code)
}

// theRun is the run that an operator means. RUN_NOT_FOUND when there is none.
func (e *Engine) theRun(ctx context.Context, g *store.Graph, req OperatorRequest) (*store.Run, error) {
	run, err := e.named(ctx, g, req.RunID, req.RunKey)
	if err != nil {
		return nil, err
	}
	switch {
	case run != nil:
	case req.RunKey != "":
		return nil, noRun(g, "run with the key %s", req.RunKey)
	default:
		if run, err = e.Store.UnfinishedRun(ctx, g.Pipeline.ID); err != nil {
			return nil, err
		}
		if run == nil {
			return nil, noRun(g, "unfinished run; name one by --run-id or --run-key")
		}
	}
	return run, e.noteRun(ctx, run.ID)
}

// Mark sets the status of a task, of a run, or, with NewRun, of a run that stands in for one.
func (e *Engine) Mark(ctx context.Context, req OperatorRequest) (doc *RunDocument, err error) {
	if err := req.checkMark(); err != nil {
		return nil, err
	}
	err = e.operate(ctx, "mark", req, func(ctx context.Context, g *store.Graph) error {
		switch {
		case req.NewRun:
			doc, err = e.standIn(ctx, g, req)
		case req.Task != "":
			doc, err = e.markTask(ctx, g, req, store.ActionMark)
		default:
			doc, err = e.onRun(ctx, g, req, func(run *store.Run) error {
				return e.Store.MarkRun(ctx, store.RunMark{RunID: run.ID, Status: req.Status, Reason: req.Reason, Actor: e.Actor})
			})
		}
		return err
	})
	return doc, err
}

// Skip ends a task that is PENDING or FAILED, or everything of a run that is PENDING, as SKIPPED.
func (e *Engine) Skip(ctx context.Context, req OperatorRequest) (doc *RunDocument, err error) {
	if err := req.checkReason("skip"); err != nil {
		return nil, err
	}
	req.Status = store.Skipped
	err = e.operate(ctx, "skip", req, func(ctx context.Context, g *store.Graph) error {
		if req.Task != "" {
			doc, err = e.markTask(ctx, g, req, store.ActionSkip)
			return err
		}
		doc, err = e.onRun(ctx, g, req, func(run *store.Run) error {
			return e.Store.SkipRun(ctx, run.ID, req.Reason, e.Actor, func(rows []store.TaskRun) (string, string) {
				states := make([]state, len(rows))
				for i := range rows {
					states[i] = rowState(&rows[i])
				}
				return outcome(states)
			})
		})
		return err
	})
	return doc, err
}

func (e *Engine) standIn(ctx context.Context, g *store.Graph, req OperatorRequest) (*RunDocument, error) {
	today, err := e.today(ctx)
	if err != nil {
		return nil, err
	}
	run, err := e.Store.AddStandIn(ctx, store.StandIn{
		PipelineID: g.Pipeline.ID, Key: "stand-in:" + uuid.NewString(), Date: today, Status: req.Status, Reason: req.Reason, Actor: e.Actor,
	})
	if err != nil {
		return nil, err
	}
	if err := e.noteRun(ctx, run.ID); err != nil {
		return nil, err
	}
	return e.document(ctx, run.ID)
}

// onRun changes a run whose tasks stay as they are, and reads what came of it.
func (e *Engine) onRun(ctx context.Context, g *store.Graph, req OperatorRequest, change func(*store.Run) error) (*RunDocument, error) {
	run, err := e.theRun(ctx, g, req)
	if err != nil {
		return nil, err
	}
	if err := e.loseDead(ctx, g.Pipeline.ID); err != nil {
		return nil, err
	}
	if err := change(run); err != nil {
		return nil, err
	}
	return e.document(ctx, run.ID)
}

// markTask sets the status of a task, and ends its run when nothing of it is left to do.
func (e *Engine) markTask(ctx context.Context, g *store.Graph, req OperatorRequest, action string) (*RunDocument, error) {
	task, err := findTask(g, req.Task)
	if err != nil {
		return nil, err
	}
	run, err := e.theRun(ctx, g, req)
	if err != nil {
		return nil, err
	}
	if err := e.loseDead(ctx, g.Pipeline.ID); err != nil {
		return nil, err
	}
	behind, asked := below(g, task)
	err = e.Store.MarkTask(ctx, store.TaskMark{
		RunID: run.ID, TaskID: task.ID, TaskCode: task.Code, Status: req.Status, Rows: req.Rows, Downstream: behind,
		Action: action, Reason: req.Reason, Actor: e.Actor,
	})
	if err != nil {
		return nil, err
	}
	if req.Status == store.Success && req.Rows == nil && len(asked) > 0 {
		e.Log.Warn(fmt.Sprintf("without --rows nobody knows whether %s has written rows, so HAS_DATA does not hold for %s", task.Code, strings.Join(asked, ", ")),
			"pipeline", g.Pipeline.Code)
	}
	if run, err = e.Store.RunByID(ctx, run.ID); err != nil {
		return nil, err
	}
	if run.OwnerID == "" && !run.Ended() { // an owner ends it itself
		w := &work{e: e, g: g, run: run, env: e.env(), atGate: map[int64]gateWait{}}
		if err := w.endIfOver(ctx); err != nil {
			return nil, err
		}
	}
	return e.document(ctx, run.ID)
}

// below lists the tasks of a pipeline that wait for a task, directly or not, and the names of those that ask whether it
// has data.
func below(g *store.Graph, task *store.Task) (ids []int64, asked []string) {
	for _, t := range downstream(g, task, func(*store.Task) bool { return true }) {
		ids = append(ids, t.ID)
		for _, edge := range t.DependsOn {
			if edge.TaskID == task.ID && edge.Type == store.OnHasData {
				asked = append(asked, t.Code)
			}
		}
	}
	return ids, asked
}

// cancelPatience is how long Cancel waits for running tasks to end.
var cancelPatience = 60 * time.Second

// Cancel ends a run and its tasks as CANCELLED, and waits until those that run have ended. Processes that work on the run
// end their statements; the attempts of dead ones are ended here. RUN_UNFINISHED when a task is still running after that.
func (e *Engine) Cancel(ctx context.Context, req OperatorRequest) (doc *RunDocument, err error) {
	if err := req.checkReason("cancel"); err != nil {
		return nil, err
	}
	err = e.operate(ctx, "cancel", req, func(ctx context.Context, g *store.Graph) error {
		run, err := e.runToCancel(ctx, g, req)
		if err != nil {
			return err
		}
		if run.Status != store.Cancelled {
			err = e.Store.CancelRun(ctx, run.ID, req.Reason, e.Actor)
		}
		if err != nil {
			return err
		}
		if err := e.untilCancelled(ctx, run); err != nil {
			return err
		}
		doc, err = e.document(ctx, run.ID)
		return err
	})
	return doc, err
}

// runToCancel is the run that cancel means: an unfinished one, or one whose cancelling was interrupted, so that tasks of it
// are still running.
func (e *Engine) runToCancel(ctx context.Context, g *store.Graph, req OperatorRequest) (*store.Run, error) {
	run, err := e.theRun(ctx, g, req)
	unnamed := fault.Has(err, fault.RunNotFound) && req.RunID == 0 && req.RunKey == ""
	if err != nil && !unnamed {
		return nil, err
	}
	if run != nil && run.Status != store.Cancelled {
		return run, nil
	}
	live, readErr := e.Store.LiveAttempts(ctx, g.Pipeline.ID)
	if readErr != nil {
		return nil, readErr
	}
	for _, a := range live {
		if a.RunStatus == store.Cancelled && (unnamed || a.RunID == run.ID) {
			if run, err = e.Store.RunByID(ctx, a.RunID); err != nil {
				return nil, err
			}
			return run, e.noteRun(ctx, run.ID)
		}
	}
	if run != nil {
		return nil, fault.New(fault.RunEnded, "run %d has ended CANCELLED", run.ID)
	}
	return nil, err
}

// untilCancelled waits until no attempt of a cancelled run is alive.
func (e *Engine) untilCancelled(ctx context.Context, run *store.Run) error {
	tick := time.NewTicker(watchEvery / 4)
	defer tick.Stop()
	patience := time.After(cancelPatience)
	for looks := 0; ; looks++ {
		left, err := e.endDead(ctx, run, looks%8 == 0)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-patience:
			return fault.New(fault.RunUnfinished, "run %d is cancelled, but task %s is still being ended by %s", run.ID, left[0].Task, ownerText(left[0].OwnerID)).
				WithHint("etl-craft status --pipeline %s --run-id %d", run.PipelineCode, run.ID)
		}
	}
}

// endDead ends the attempts of dead processes in a cancelled run, if told to look for those, and returns the others.
func (e *Engine) endDead(ctx context.Context, run *store.Run, look bool) ([]store.LiveAttempt, error) {
	all, err := e.Store.LiveAttempts(ctx, run.PipelineID)
	if err != nil {
		return nil, err
	}
	var left []store.LiveAttempt
	for _, a := range all {
		if a.RunID != run.ID {
			continue
		}
		gone := false
		if look {
			if gone, err = e.gone(ctx, a.OwnerID, a.LeaseExpired); err != nil {
				return nil, err
			}
		}
		if !gone {
			left = append(left, a)
			continue
		}
		err := e.Store.FinishAttempt(ctx, store.Outcome{
			AttemptID: a.ID, Owner: a.OwnerID, Status: store.Cancelled, TaskStatus: store.Cancelled, ErrorCode: string(fault.RunCancelled),
			Error: fmt.Sprintf("the run was cancelled; %s, which ran the attempt, had died", ownerText(a.OwnerID)),
		})
		if err != nil && !fault.Has(err, fault.StaleAttempt) { // it has ended after all
			return nil, err
		}
	}
	return left, nil
}

// Pause keeps new runs and tasks of a pipeline from starting. Running tasks finish.
func (e *Engine) Pause(ctx context.Context, req OperatorRequest) (doc *PauseDocument, err error) {
	if err := req.checkReason("pause"); err != nil {
		return nil, err
	}
	err = e.operate(ctx, "pause", req, func(ctx context.Context, g *store.Graph) error {
		if err := e.Store.PausePipeline(ctx, g.Pipeline.ID, req.Reason, e.Actor); err != nil {
			return err
		}
		doc, err = e.pauseDocument(ctx, g, true)
		return err
	})
	return doc, err
}

// Resume ends the pause of a pipeline; without one it does nothing.
func (e *Engine) Resume(ctx context.Context, req OperatorRequest) (doc *PauseDocument, err error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	err = e.operate(ctx, "resume", req, func(ctx context.Context, g *store.Graph) error {
		changed, err := e.Store.ResumePipeline(ctx, g.Pipeline.ID, req.Reason, e.Actor)
		if err != nil {
			return err
		}
		doc, err = e.pauseDocument(ctx, g, changed)
		return err
	})
	return doc, err
}

func (e *Engine) pauseDocument(ctx context.Context, g *store.Graph, changed bool) (*PauseDocument, error) {
	doc := &PauseDocument{Schema: "etl-craft/pause/1", Pipeline: g.Pipeline.Code, Changed: changed}
	p, err := e.Store.PauseOf(ctx, g.Pipeline.ID)
	if err != nil {
		return nil, err
	}
	if p != nil {
		doc.Paused, doc.PausedBy, doc.PausedAt, doc.Reason = true, &p.By, &Time{p.At}, &p.Reason
	}
	run, err := e.Store.UnfinishedRun(ctx, g.Pipeline.ID)
	if err != nil {
		return nil, err
	}
	if run != nil {
		doc.PipelineRunID = &run.ID
		return doc, e.noteRun(ctx, run.ID)
	}
	return doc, nil
}
