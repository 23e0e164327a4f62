package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// Answers of Check.
const (
	AnswerRun  = "RUN"
	AnswerWait = "WAIT"
	AnswerSkip = "SKIP"
)

// CheckDocument is etl-craft/check/1, the answer of run --check-only.
type CheckDocument struct {
	Schema        string  `json:"schema"`
	Pipeline      string  `json:"pipeline"`
	Task          *string `json:"task"`            // null for a whole run
	PipelineRunID *int64  `json:"pipeline_run_id"` // null when there is no run yet
	Answer        string  `json:"answer"`          // RUN, WAIT or SKIP
	SkipReason    *string `json:"skip_reason"`     // of SKIP
	Message       *string `json:"message"`         // why not RUN
}

// Check says whether a task of the run that the request means may run now, or with InitOnly whether a run may start, and
// records nothing. An answer other than RUN comes with an error, NOT_READY or TASK_SKIPPED.
func (e *Engine) Check(ctx context.Context, req RunRequest) (*CheckDocument, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return nil, err
	}
	doc, err := e.check(ctx, g, req)
	return doc, inPipeline(err, g.Pipeline.Code)
}

func (e *Engine) check(ctx context.Context, g *store.Graph, req RunRequest) (*CheckDocument, error) {
	if g.PausedBy != "" {
		return nil, fault.New(fault.Paused, "pipeline %s is paused by %s: %s", g.Pipeline.Code, g.PausedBy, g.PauseWhy)
	}
	if err := invalid(g.Pipeline.Code, e.problems([]*store.Graph{g}, false)); err != nil {
		return nil, err
	}
	switch {
	case req.InitOnly && !e.remote():
		return nil, fault.New(fault.WrongMode, "--init-only is for orchestration.mode: remote")
	case req.InitOnly:
		return e.checkRun(ctx, g, req)
	case req.Task == "":
		return nil, fault.New(fault.Usage, "--check-only needs --task, or --init-only").WithHint("etl-craft graph --pipeline %s", g.Pipeline.Code)
	}
	return e.checkTask(ctx, g, req)
}

// checkRun judges the pipelines that this one waits for. A run that has the key already was let in when it started.
func (e *Engine) checkRun(ctx context.Context, g *store.Graph, req RunRequest) (*CheckDocument, error) {
	run, date, err := e.keyed(ctx, g, req)
	if err != nil {
		return nil, err
	}
	doc := checked(g, run)
	if run != nil {
		return doc, nil
	}
	gates := pipelineGatesOf(g, date)
	v, err := e.look(ctx, gates, len(gates))
	if err != nil {
		return nil, err
	}
	if waits := append(v.busy, v.unmet...); len(waits) > 0 {
		return doc.wait(fault.New(fault.NotReady, "pipeline %s waits for %s", g.Pipeline.Code, strings.Join(waits, "; ")))
	}
	return doc, nil
}

// keyed finds the run that an orchestrator means, nil when it has not started, and its date.
func (e *Engine) keyed(ctx context.Context, g *store.Graph, req RunRequest) (*store.Run, string, error) {
	if req.RunID == 0 && req.RunKey == "" {
		return nil, "", fault.New(fault.Usage, "orchestration.mode remote needs --run-key").WithHint("give all calls of one run the same key")
	}
	run, err := e.named(ctx, g, req.RunID, req.RunKey)
	switch {
	case err != nil:
		return nil, "", err
	case run != nil:
		return run, run.Date, refuseRun(run, req.RunDate)
	case req.RunDate != "":
		return nil, req.RunDate, nil
	}
	date, err := e.today(ctx)
	return nil, date, err
}

func (e *Engine) checkTask(ctx context.Context, g *store.Graph, req RunRequest) (*CheckDocument, error) {
	task, err := findTask(g, req.Task)
	if err != nil {
		return nil, err
	}
	states := make(map[int64]state, len(g.Tasks))
	for i := range g.Tasks {
		states[g.Tasks[i].ID] = state{status: store.Pending}
	}
	run, date, err := e.foreseen(ctx, g, req, task, states)
	if err != nil {
		return nil, err
	}
	doc := checked(g, run)
	doc.Task = &task.Code
	f := newFlow(g.Tasks, states)
	d := f.decide()
	before := f.ancestors(task.ID)
	for i := 0; i < len(d.gated); i++ {
		gated := d.gated[i]
		if gated.ID != task.ID && !before[gated.ID] {
			continue
		}
		v, err := e.taskGates(ctx, gated, date, run != nil && run.Trigger == store.TriggerBackfill, f.needed(gated.ID))
		if err != nil {
			return nil, err
		}
		if len(v.busy) > 0 && e.Config.Orchestration.GateWait > 0 {
			return doc.wait(taskFault(fault.NotReady, task, "task %s waits: %s", task.Code, strings.Join(v.busy, ", ")))
		}
		f.judge(gated.ID, v.held, v.refused()...)
		more := f.decide()
		d.ready, d.gated, d.skips = append(d.ready, more.ready...), append(d.gated, more.gated...), append(d.skips, more.skips...)
	}
	for _, t := range d.ready {
		if t.ID == task.ID {
			return doc, nil
		}
	}
	for _, s := range d.skips {
		if s.task.ID == task.ID {
			err := taskFault(fault.TaskSkipped, task, "task %s is to be skipped: %s", task.Code, skipText(s))
			doc.Answer, doc.SkipReason, doc.Message = AnswerSkip, &s.reason, &err.Message
			return doc, err
		}
	}
	return doc.wait(fault.As(notReady(g, f, task, req.whichRun())))
}

// foreseen finds the run that the request means, and its date, and fills in the states of its tasks as they are when task
// is about to run.
func (e *Engine) foreseen(ctx context.Context, g *store.Graph, req RunRequest, task *store.Task, states map[int64]state) (*store.Run, string, error) {
	if !e.remote() {
		c, err := e.choose(ctx, g, req)
		if err != nil || c.run == nil {
			return nil, c.date, err
		}
		return c.run, c.run.Date, e.foresee(ctx, c, task, states)
	}
	run, date, err := e.keyed(ctx, g, req)
	if err != nil {
		return nil, "", err
	}
	if run == nil {
		return nil, "", noRun(g, "run with the key %s", req.RunKey)
	}
	rows, err := e.Store.TaskRuns(ctx, run.ID)
	if err != nil {
		return nil, "", err
	}
	for i := range rows {
		own := rows[i].TaskID == task.ID
		s := rowState(&rows[i])
		switch live, err := e.runs(ctx, &rows[i]); {
		case err != nil:
			return nil, "", err
		case own && live != nil:
			return nil, "", taskState(run, &rows[i], "is running, by %s", ownerText(live.OwnerID))
		case own:
			s = state{status: store.Pending} // a finished task may run again because the orchestrator asks for it
		case live == nil && s.status == store.InProgress:
			s = state{status: store.Failed} // as which the end of the run will count it
		}
		states[rows[i].TaskID] = s
	}
	return run, date, nil
}

// runs is the attempt of a task on which a process works, nil when there is none.
func (e *Engine) runs(ctx context.Context, row *store.TaskRun) (*store.Attempt, error) {
	live, err := e.liveAttempt(ctx, row)
	if err != nil || live == nil {
		return nil, err
	}
	gone, err := e.gone(ctx, live.OwnerID, live.LeaseExpired)
	if err != nil || gone {
		return nil, err
	}
	return live, nil
}

func checked(g *store.Graph, run *store.Run) *CheckDocument {
	doc := &CheckDocument{Schema: "etl-craft/check/1", Pipeline: g.Pipeline.Code, Answer: AnswerRun}
	if run != nil {
		doc.PipelineRunID = &run.ID
	}
	return doc
}

func (d *CheckDocument) wait(why *fault.Error) (*CheckDocument, error) {
	d.Answer, d.Message = AnswerWait, &why.Message
	return d, why.WithHint("ask again later")
}

func taskFault(code fault.Code, task *store.Task, format string, args ...any) *fault.Error {
	err := fault.New(code, format, args...)
	err.Task = task.Code
	return err
}

// Text is the answer for people.
func (d *CheckDocument) Text() string {
	what := "pipeline " + d.Pipeline
	if d.Task != nil {
		what = "task " + *d.Task
	}
	switch d.Answer {
	case AnswerWait:
		return fmt.Sprintf("%s may not run yet\n", what)
	case AnswerSkip:
		return fmt.Sprintf("%s is to be skipped (%s)\n", what, *d.SkipReason)
	}
	return fmt.Sprintf("%s may run\n", what)
}
