package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
)

// Run runs or resumes a pipeline, or one task of it. A failed run comes back with an error of code RUN_FAILED together
// with its document; every other error comes alone.
func (e *Engine) Run(ctx context.Context, req RunRequest) (*RunDocument, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if req.Backfill != "" {
		return nil, fault.New(fault.Internal, "a backfill is more than one run")
	}
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return nil, err
	}
	arguments, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	var doc *RunDocument
	ctx = findingRun(ctx)
	err = e.audited(ctx, store.ActionRecord{Command: "run", Arguments: string(arguments), PipelineID: g.Pipeline.ID}, func() (err error) {
		doc, err = e.run(ctx, g, req)
		if e.stopped(ctx) && (errors.Is(err, context.Canceled) || fault.Has(err, fault.WarehouseDown)) {
			err = interrupted(g.Pipeline.Code)
		}
		return err
	})
	if err != nil && !fault.Has(err, fault.RunFailed) {
		doc = nil
	}
	return doc, inPipeline(err, g.Pipeline.Code)
}

// inPipeline completes an error with the pipeline that it is about, and a refusal with what to do.
func inPipeline(err error, pipeline string) error {
	var known *fault.Error
	if !errors.As(err, &known) {
		return err
	}
	if known.Pipeline == "" {
		known.Pipeline = pipeline
	}
	if known.Hint != "" {
		return err
	}
	switch known.Code {
	case fault.Paused:
		known.Hint = "etl-craft resume --pipeline " + pipeline
	case fault.RunActive, fault.RunOwned, fault.RunEnded, fault.TaskState:
		known.Hint = "etl-craft status --pipeline " + pipeline
	}
	return err
}

func (e *Engine) run(ctx context.Context, g *store.Graph, req RunRequest) (*RunDocument, error) {
	if g.PausedBy != "" && !req.FinalizeOnly {
		if doc, err := e.finished(ctx, g, req); doc != nil || err != nil {
			return doc, err
		}
		return nil, fault.New(fault.Paused, "pipeline %s is paused by %s: %s", g.Pipeline.Code, g.PausedBy, g.PauseWhy).
			WithHint("etl-craft resume --pipeline %s", g.Pipeline.Code)
	}
	if e.remote() {
		if err := req.refuseRemote(); err != nil {
			return nil, err
		}
		return e.runRemote(ctx, g, req)
	}
	switch {
	case req.InitOnly || req.FinalizeOnly:
		return nil, fault.New(fault.WrongMode, "--init-only and --finalize-only are for orchestration.mode: remote").
			WithHint("etl-craft run --pipeline %s", g.Pipeline.Code)
	case req.Task != "":
		return e.runTask(ctx, g, req)
	}
	return e.runPipeline(ctx, g, req)
}

// finished is the document of a run that was named and has ended well, for a request that only asks for it: there is nothing
// that a pause could hold back. It is nil for every other request.
func (e *Engine) finished(ctx context.Context, g *store.Graph, req RunRequest) (*RunDocument, error) {
	if e.remote() || req.InitOnly || req.Task != "" || req.Force {
		return nil, nil
	}
	run, err := e.named(ctx, g, req.RunID, req.RunKey)
	if err != nil || run == nil || !wentWell(run.Status) {
		return nil, err
	}
	if err := refuseRun(run, req.RunDate); err != nil {
		return nil, err
	}
	return e.document(ctx, run.ID)
}

func (e *Engine) remote() bool { return e.Config.Orchestration.Mode == config.Remote }

// runPipeline runs all tasks of the run that the request means. After a run of an earlier date that nobody named, today's
// follows.
func (e *Engine) runPipeline(ctx context.Context, g *store.Graph, req RunRequest) (*RunDocument, error) {
	c, err := e.choose(ctx, g, req)
	if err != nil {
		return nil, err
	}
	if req.Force {
		c.again, c.reason, c.bypass = &store.Again{All: true}, req.Reason, req.Reason
	}
	if c.run != nil && wentWell(c.run.Status) && !req.Force {
		return e.document(ctx, c.run.ID)
	}
	doc, err := e.carryOut(ctx, g, c)
	if err != nil || c.run == nil || c.named || req.RunDate != "" || req.Force {
		return doc, err
	}
	today, err := e.today(ctx)
	if err != nil || c.run.Date >= today {
		return doc, err
	}
	if g, err = e.Store.Graph(ctx, g.Pipeline.Code); err != nil {
		return nil, err
	}
	newest, err := e.newest(ctx, g)
	if err != nil {
		return nil, err
	}
	next, err := e.carryOut(ctx, g, choice{key: newKey(), date: today, newest: newest})
	if next != nil {
		next.PreviousRunID = &c.run.ID
	}
	return next, err
}

// choice is the run that a request works on: one that exists, or a new one.
type choice struct {
	run       *store.Run           // nil for a new one
	named     bool                 // by its id or key
	key, date string               // of a new one
	asked     string               // the flags that name it, or what a new one is to be, for a hint
	newest    *int64               // the pipeline's newest run when a new one was chosen, 0 for none; nil when that does not matter
	gates     []store.GateDecision // that let a new one start
	trigger   string               // of a new one, "" for the usual one
	reason    string               // why a person asks for something unusual, "" otherwise
	bypass    string               // why gates are not asked, "" when they are
	again     *store.Again         // tasks to run again, nil for those that failed
}

func newKey() string { return "manual:" + uuid.NewString() }

func (e *Engine) today(ctx context.Context) (string, error) {
	now, err := e.Store.Now(ctx)
	return now.UTC().Format("2006-01-02"), err
}

// choose finds the run that a request means, and refuses what contradicts it.
func (e *Engine) choose(ctx context.Context, g *store.Graph, req RunRequest) (choice, error) {
	newest, err := e.newest(ctx, g) // before everything that is judged
	if err != nil {
		return choice{}, err
	}
	run, err := e.named(ctx, g, req.RunID, req.RunKey)
	if err != nil {
		return choice{}, err
	}
	c := choice{run: run, named: req.RunID != 0 || req.RunKey != "", key: req.RunKey, date: req.RunDate, newest: newest, asked: req.whichRun()}
	if run == nil {
		unfinished, err := e.Store.UnfinishedRun(ctx, g.Pipeline.ID)
		if err != nil {
			return choice{}, err
		}
		if unfinished != nil && req.RunKey != "" {
			return choice{}, fault.New(fault.RunActive, "run %d (key %s) of pipeline %s is unfinished, so no run with the key %s starts", unfinished.ID, unfinished.Key, g.Pipeline.Code, req.RunKey).
				WithHint("%s", unfinished.GoOn())
		}
		if unfinished != nil && unfinished.Trigger == store.TriggerBackfill {
			return choice{}, refuseBackfillRun(unfinished)
		}
		c.run = unfinished
	}
	if c.run != nil {
		return c, refuseRun(c.run, req.RunDate)
	}
	if c.key == "" {
		c.key = newKey()
	}
	if c.date == "" {
		c.date, err = e.today(ctx)
	}
	return c, err
}

// newest is the id of a pipeline's newest run, 0 before the first one.
func (e *Engine) newest(ctx context.Context, g *store.Graph) (*int64, error) {
	var id int64
	run, err := e.Store.NewestRun(ctx, g.Pipeline.ID)
	if run != nil {
		id = run.ID
	}
	return &id, err
}

func refuseRun(run *store.Run, date string) error {
	switch {
	case run.Status == store.Cancelled:
		return fault.New(fault.RunEnded, "run %d of pipeline %s was cancelled and is not continued", run.ID, run.PipelineCode).
			WithHint("etl-craft run --pipeline %s", run.PipelineCode)
	case date != "" && date != run.Date && run.Ended():
		return fault.New(fault.RunEnded, "run %d of pipeline %s has the date %s, not %s", run.ID, run.PipelineCode, run.Date, date).
			WithHint("etl-craft run --pipeline %s --run-date %s", run.PipelineCode, date)
	case date != "" && date != run.Date:
		return fault.New(fault.RunActive, "run %d of pipeline %s is unfinished and has the date %s, not %s", run.ID, run.PipelineCode, run.Date, date).
			WithHint("etl-craft run --pipeline %s --run-id %d", run.PipelineCode, run.ID)
	}
	return nil
}

// named reads the run with this id or key; nil when none was given, or no run has the key.
func (e *Engine) named(ctx context.Context, g *store.Graph, id int64, key string) (*store.Run, error) {
	switch {
	case id != 0:
		run, err := e.Store.RunByID(ctx, id)
		if err == nil && (run == nil || run.PipelineID != g.Pipeline.ID) {
			return nil, noRun(g, "run %d", id)
		}
		return run, err
	case key != "":
		return e.Store.RunByKey(ctx, g.Pipeline.ID, key)
	}
	return nil, nil
}

func noRun(g *store.Graph, format string, args ...any) error {
	return fault.New(fault.RunNotFound, "pipeline %s has no "+format, append([]any{g.Pipeline.Code}, args...)...).
		WithHint("etl-craft history --pipeline %s", g.Pipeline.Code)
}

// carryOut makes or claims the chosen run and runs its tasks.
func (e *Engine) carryOut(ctx context.Context, g *store.Graph, c choice) (*RunDocument, error) {
	if err := e.mayStart(ctx, g, c); err != nil {
		return nil, err
	}
	if c.run == nil {
		var err error
		if c.gates, err = e.gatesOfNew(ctx, g, c, true); err != nil {
			return nil, err
		}
	}
	if len(g.Tasks) > 0 {
		if err := e.connectUnlessStopped(ctx); err != nil {
			return nil, err
		}
	}
	w, err := e.newWork(ctx, g)
	if err != nil {
		return nil, err
	}
	if w.run, err = e.takeNow(ctx, g, &c, e.id); err != nil {
		return nil, err
	}
	w.owner, w.bypass = e.id, c.bypass
	if err := e.resetTasks(ctx, c, e.id); err != nil {
		return nil, e.leave(ctx, w.run, err)
	}
	doc, err := w.runAll(ctx)
	if err != nil && !fault.Has(err, fault.RunFailed) {
		return nil, e.leave(ctx, w.run, err)
	}
	return doc, err
}

// leave gives a run back that stays unfinished because of err.
func (e *Engine) leave(ctx context.Context, run *store.Run, err error) error {
	release := e.Store.ReleaseRun(context.WithoutCancel(ctx), run.ID, e.id)
	if fault.Has(release, fault.RunEnded) || fault.Has(release, fault.RunOwned) {
		return e.whyEnded(ctx, run, err) // somebody else has taken or ended it
	}
	return errors.Join(err, release)
}

// mayStart refuses before anything is recorded: metadata with problems, a run that a living process works on.
func (e *Engine) mayStart(ctx context.Context, g *store.Graph, c choice) error {
	if e.stopped(ctx) {
		return interrupted(g.Pipeline.Code)
	}
	if err := invalid(g.Pipeline.Code, e.problems([]*store.Graph{g}, false)); err != nil {
		return err
	}
	if c.run == nil {
		return nil
	}
	return e.refuseOwned(ctx, c.run)
}

func (e *Engine) stopped(ctx context.Context) bool {
	select {
	case <-e.Stop:
		return true
	default:
		return ctx.Err() != nil
	}
}

func interrupted(pipeline string) error {
	return fault.New(fault.Interrupted, "interrupted").WithHint("etl-craft run --pipeline %s", pipeline)
}

// invalid turns the FAILs among problems into one error, nil when there are none.
func invalid(pipeline string, problems []fault.Problem) error {
	var fails []fault.Problem
	for _, p := range problems {
		if p.Level == "FAIL" {
			fails = append(fails, p)
		}
	}
	if len(fails) == 0 {
		return nil
	}
	what := "the metadata has"
	if pipeline != "" {
		what = "pipeline " + pipeline + " has"
	}
	err := fault.New(fault.MetadataInvalid, "%s %d problem(s)", what, len(fails))
	err.Problems = fails
	return err
}

// connectUnlessStopped connects to the warehouse, but waits for it no longer than new work may start.
func (e *Engine) connectUnlessStopped(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connected := make(chan struct{})
	defer close(connected)
	go func() {
		select {
		case <-e.Stop:
			cancel()
		case <-connected:
		}
	}()
	return e.connect(ctx)
}

// refuseOwned fails with RUN_OWNED when a living process works on the run.
func (e *Engine) refuseOwned(ctx context.Context, run *store.Run) error {
	if run.Ended() || run.OwnerID == "" || run.OwnerID == e.id || run.LeaseExpired {
		return nil
	}
	dead, err := e.dead(ctx, run.OwnerID)
	if err != nil || dead {
		return err
	}
	return fault.New(fault.RunOwned, "run %d of pipeline %s is worked on by %s", run.ID, run.PipelineCode, ownerText(run.OwnerID)).
		WithHint("wait until it is done: etl-craft status --pipeline %s", run.PipelineCode)
}

// ownerText reads an owner's id, host:pid:uuid.
func ownerText(owner string) string {
	parts := strings.Split(owner, ":")
	if len(parts) != 3 {
		return owner
	}
	return fmt.Sprintf("process %s on host %s", parts[1], parts[0])
}

// takeNow is take for a run that was chosen a while ago: the warehouse may have been waited for since. When somebody was
// faster, the error says who.
func (e *Engine) takeNow(ctx context.Context, g *store.Graph, c *choice, owner string) (*store.Run, error) {
	if err := e.renew(ctx, g, c); err != nil {
		return nil, err
	}
	run, err := e.take(ctx, g, *c, owner)
	if fault.Has(err, fault.RunActive) || fault.Has(err, fault.RunOwned) || fault.Has(err, fault.RunEnded) {
		if faster := e.renew(ctx, g, c); faster != nil {
			return nil, faster
		}
	}
	return run, err
}

// renew brings a choice up to date, and refuses it when another process has started, taken or ended the run meanwhile.
func (e *Engine) renew(ctx context.Context, g *store.Graph, c *choice) error {
	if c.run == nil {
		return e.refuseStarted(ctx, g, c)
	}
	now, err := e.Store.RunByID(ctx, c.run.ID)
	switch {
	case err != nil:
		return err
	case now == nil:
		return noRun(g, "run %d any more", c.run.ID)
	case now.Ended() && (!c.run.Ended() || !now.EndedAt.Equal(*c.run.EndedAt)):
		return fault.New(fault.RunEnded, "run %d of pipeline %s was ended %s by another process meanwhile", now.ID, now.PipelineCode, now.Status).
			WithHint("etl-craft status --pipeline %s --run-id %d", now.PipelineCode, now.ID)
	}
	c.run = now
	return e.refuseOwned(ctx, now)
}

// refuseStarted fails when a run of the pipeline for the same date was started since a new one was chosen.
func (e *Engine) refuseStarted(ctx context.Context, g *store.Graph, c *choice) error {
	if c.newest == nil {
		return nil
	}
	newest, err := e.Store.RunSince(ctx, g.Pipeline.ID, *c.newest, c.date)
	if err != nil || newest == nil {
		return err
	}
	if err := e.refuseOwned(ctx, newest); err != nil {
		return err
	}
	return fault.New(fault.RunActive, "run %d of pipeline %s was started by another process meanwhile and is %s", newest.ID, newest.PipelineCode, newest.Status).
		WithHint("etl-craft status --pipeline %s --run-id %d", newest.PipelineCode, newest.ID)
}

// take makes the chosen run unfinished and gives it to owner, "" for nobody: a new run is admitted, an ended one reopened,
// an unfinished one claimed. What dead processes left running in it is lost, and tasks that joined the pipeline join it.
func (e *Engine) take(ctx context.Context, g *store.Graph, c choice, owner string) (*store.Run, error) {
	if c.run == nil {
		return e.admit(ctx, g, c, owner)
	}
	if err := e.noteRun(ctx, c.run.ID); err != nil {
		return nil, err
	}
	if c.run.Ended() {
		if err := e.reopen(ctx, c, owner); err != nil {
			return nil, err
		}
	} else if owner != "" || c.run.OwnerID != "" || c.run.Status == store.Queued {
		if err := e.Store.ClaimRun(ctx, c.run.ID, e.id, c.run.OwnerID); err != nil {
			return nil, err
		}
		if owner == "" {
			if err := e.Store.ReleaseRun(ctx, c.run.ID, e.id); err != nil {
				return nil, err
			}
		}
	}
	if err := e.loseDead(ctx, g.Pipeline.ID); err != nil {
		return nil, err
	}
	if err := e.Store.SyncTasks(ctx, c.run.ID); err != nil {
		return nil, err
	}
	run, err := e.Store.RunByID(ctx, c.run.ID)
	if err == nil {
		e.Log.Info(fmt.Sprintf("run %d of %s goes on", run.ID, run.Date), "pipeline", g.Pipeline.Code)
	}
	return run, err
}

func (e *Engine) admit(ctx context.Context, g *store.Graph, c choice, owner string) (*store.Run, error) {
	if err := e.refusePaused(ctx, g); err != nil {
		return nil, err
	}
	if err := e.loseDead(ctx, g.Pipeline.ID); err != nil { // in runs that were cancelled
		return nil, err
	}
	newest, err := e.Store.NewestRun(ctx, g.Pipeline.ID)
	if err != nil {
		return nil, err
	}
	trigger := store.TriggerManual
	if e.remote() {
		trigger = store.TriggerOrchestrator
	}
	if c.trigger != "" {
		trigger = c.trigger
	}
	run, err := e.Store.AdmitRun(ctx, store.NewRun{
		PipelineID: g.Pipeline.ID, Key: c.key, Date: c.date, Trigger: trigger, OwnerID: owner, Actor: e.Actor,
		ConfigSHA256: e.Config.Fingerprint(), Gates: c.gates, Reason: c.reason, Newest: c.newest,
	})
	if err != nil {
		return nil, err
	}
	faultpoint.Hit("run admitted")
	if err := e.noteRun(ctx, run.ID); err != nil {
		return nil, err
	}
	if newest != nil && newest.Status == store.Failed && newest.Date == run.Date {
		goOn := "clear its tasks in the orchestrator"
		if !e.remote() {
			goOn = fmt.Sprintf("etl-craft run --pipeline %s --run-id %d", g.Pipeline.Code, newest.ID)
		}
		e.Log.Warn(fmt.Sprintf("run %d of the same date failed and is not continued by this one; to continue it: %s",
			newest.ID, goOn), "pipeline", g.Pipeline.Code)
	}
	e.Log.Info(fmt.Sprintf("run %d of %s starts", run.ID, run.Date), "pipeline", g.Pipeline.Code)
	return run, nil
}

// loseDead ends the attempts of a pipeline whose processes are gone; their tasks are PENDING again, or CANCELLED as their run
// is.
func (e *Engine) loseDead(ctx context.Context, pipelineID int64) error {
	live, err := e.Store.LiveAttempts(ctx, pipelineID)
	if err != nil {
		return err
	}
	type share struct {
		run   int64
		owner string
	}
	asked := map[share]bool{}
	for _, a := range live {
		s := share{a.RunID, a.OwnerID}
		if asked[s] {
			continue
		}
		asked[s] = true
		gone, err := e.gone(ctx, a.OwnerID, a.LeaseExpired)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		lost, err := e.Store.LoseAttempts(ctx, a.RunID, a.OwnerID)
		if err != nil {
			return err
		}
		e.Log.Warn(fmt.Sprintf("%d task(s) of run %d were left running by %s, which is gone", lost, a.RunID, ownerText(a.OwnerID)))
	}
	return nil
}

// liveAttempt is the attempt of a task run that has not ended, nil when there is none.
func (e *Engine) liveAttempt(ctx context.Context, row *store.TaskRun) (*store.Attempt, error) {
	if row.Status != store.InProgress {
		return nil, nil
	}
	attempts, err := e.Store.Attempts(ctx, row.ID)
	if err != nil || len(attempts) == 0 {
		return nil, err
	}
	last := &attempts[len(attempts)-1]
	if last.Status != store.Running && last.Status != store.Queued {
		return nil, nil
	}
	return last, nil
}

// gone reports whether the owner of a run or an attempt works on it no more.
func (e *Engine) gone(ctx context.Context, owner string, leaseExpired bool) (bool, error) {
	if leaseExpired {
		return true, nil
	}
	return e.dead(ctx, owner)
}

// document reads a run with its tasks.
func (e *Engine) document(ctx context.Context, runID int64) (*RunDocument, error) {
	run, err := e.Store.RunByID(ctx, runID)
	if err != nil {
		return nil, err
	}
	rows, err := e.Store.TaskRuns(ctx, runID)
	if err != nil {
		return nil, err
	}
	return runDocument(run, rows), nil
}
