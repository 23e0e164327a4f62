package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// recordPatience is how long the outcome of an attempt is offered to an Engine DB that cannot be reached: less than a
// lease, after which another process may take the attempt over.
const recordPatience = 45 * time.Second

// attemptEnd is how an attempt ended. Its task is PENDING when it was interrupted or is tried again, IN_PROGRESS when
// another process runs it.
type attemptEnd struct {
	task   *store.Task
	number int
	state  state
	retry  bool         // the task is tried again
	paused bool         // the attempt did not start, because the pipeline is paused
	due    time.Time    // not before this
	fault  *fault.Error // why the task failed, nil otherwise
	err    error        // why the run cannot go on
}

// execution is one attempt of a task under way.
type execution struct {
	w       *work
	task    *store.Task
	row     *store.TaskRun
	attempt *store.Attempt
	log     *attemptLog
	cancel  context.CancelCauseFunc

	mu                 sync.Mutex
	locks              []locks.Lock
	watches            sync.WaitGroup
	selectSHA256, plan string
	finished           chan struct{}
	timeout            time.Duration
	retries            retryPolicy
	earlier            []store.Attempt
}

var errTimeout = errors.New("the task's timeout is over")

// attempt runs a task once, from the attempt's row to its outcome. Cancelling ctx cancels the statements of the task,
// which is PENDING afterwards.
func (w *work) attempt(ctx context.Context, t *store.Task, row *store.TaskRun) attemptEnd {
	end := attemptEnd{task: t, state: state{status: store.InProgress}}
	x := &execution{w: w, task: t, row: row, finished: make(chan struct{})}
	if x.timeout, end.err = w.timeout(t); end.err != nil {
		return end
	}
	if x.retries, end.err = w.retryPolicy(t); end.err != nil {
		return end
	}
	path := w.logPath(t, row.Attempts+1)
	durable := context.WithoutCancel(ctx)
	var err error
	x.attempt, err = w.e.Store.StartAttempt(durable, store.StartAttempt{
		TaskRunID: row.ID, From: row.Status, Attempts: row.Attempts, RunOwner: w.owner, Owner: w.e.id, Host: w.e.host, PID: os.Getpid(), LogPath: path, TargetObject: w.target(t), Actor: w.e.Actor,
	})
	if err != nil {
		switch {
		case fault.Has(err, fault.TaskState): // another process was faster, and runs it
		case fault.Has(err, fault.Paused):
			end.state, end.paused = state{status: store.Pending}, true
		default:
			end.err = err
		}
		return end
	}
	end.number = x.attempt.Number
	faultpoint.Hit("attempt started")
	if w.e.Observer != nil {
		w.e.Observer.TaskStarted(t.Code, x.attempt.Number)
	}

	var result handlers.Result
	if x.attempt.Number > 1 {
		var all []store.Attempt
		all, err = w.e.Store.Attempts(durable, row.ID)
		x.earlier = all[:max(0, len(all)-1)] // the last one is this one
	}
	if err == nil {
		x.log, err = w.e.openLog(path, slog.Int64("task_run_id", row.ID), slog.String("pipeline", w.g.Pipeline.Code),
			slog.String("task", t.Code), slog.Int("attempt", x.attempt.Number))
	}
	if err == nil {
		w.e.Log.Info("started", "pipeline", w.g.Pipeline.Code, "task", t.Code, "attempt", x.attempt.Number)
		result, err = x.run(ctx)
		x.logError(err)
	}
	out := x.outcome(ctx, result, err)
	faultpoint.Hit("before outcome")
	end.err = x.record(durable, out)
	faultpoint.Hit("after outcome")
	close(x.finished)
	x.watches.Wait()
	if end.err != nil {
		return end // with its locks, which nobody may have before the outcome is known
	}
	end.err = errors.Join(x.release(), x.log.close())
	end.state = state{status: out.TaskStatus}
	if out.TaskCounts.Written != nil {
		end.state.written = *out.TaskCounts.Written
	}
	switch {
	case out.ErrorCode == string(fault.LockLost):
		end.err = errors.Join(end.err, err) // what is lost proved this process alive, too
	case out.TaskStatus == store.Failed:
		end.fault = fault.As(err)
	case out.TaskStatus == store.Pending && out.Status != store.Cancelled:
		end.retry, end.due = true, time.Now().Add(out.RetryIn)
	}
	x.tell(out)
	return end
}

// timeout is how long the task may run, 0 for ever.
func (w *work) timeout(t *store.Task) (time.Duration, error) {
	text, ok := t.Params["TASK_TIMEOUT_SECONDS"]
	if !ok {
		return w.e.Config.Orchestration.TaskTimeout, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fault.New(fault.ParameterInvalid, "TASK_TIMEOUT_SECONDS of task %s is %q", t.Code, text)
	}
	return time.Duration(seconds) * time.Second, nil
}

func (w *work) logPath(t *store.Task, number int) string {
	dir := w.e.Config.Orchestration.LogDir
	if w.e.Config.Profiles > 1 { // their Engine DBs may give out the same ids
		dir = filepath.Join(dir, w.e.Config.Profile)
	}
	return filepath.Join(dir, w.g.Pipeline.Code, fmt.Sprintf("run-%d", w.run.ID), fmt.Sprintf("%s.attempt-%d.log", t.Code, number))
}

// target is TARGET_OBJECT as the warehouse names it in full.
func (w *work) target(t *store.Task) string { return qualified(w.env, t.Params["TARGET_OBJECT"]) }

// qualified folds a name as the warehouse does and puts the default database in front of schema.table.
func qualified(env *handlers.Env, name string) string {
	if name == "" || env.Dialect == nil {
		return name
	}
	parts := strings.Split(strings.TrimSpace(name), ".")
	for i := range parts {
		parts[i] = env.Dialect.FoldName(parts[i])
	}
	if len(parts) == 2 && env.Database != "" {
		parts = append([]string{env.Database}, parts...)
	}
	return strings.Join(parts, ".")
}

// run calls the handler under the task's timeout.
func (x *execution) run(ctx context.Context) (result handlers.Result, err error) {
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	bounded := ctx
	if x.timeout > 0 {
		var done context.CancelFunc
		bounded, done = context.WithTimeoutCause(ctx, x.timeout, errTimeout)
		defer done()
	}
	date, err := time.Parse(time.DateOnly, x.w.run.Date)
	if err != nil {
		return result, fmt.Errorf("date of run %d: %w", x.w.run.ID, err)
	}
	token := make([]byte, 4)
	_, _ = rand.Read(token) // never fails
	a := &handlers.Attempt{
		Task:          handlers.Task{Task: *x.task, Pipeline: x.w.g.Pipeline, Siblings: x.w.g.Tasks},
		PipelineRunID: x.w.run.ID, TaskRunID: x.row.ID, AttemptID: x.attempt.ID, Number: x.attempt.Number,
		RunDate: date, Instant: *x.attempt.Instant, Token: hex.EncodeToString(token),
		Earlier: x.earlier, Statuses: x.w.statuses,
		Log:  x.log.Logger,
		Hold: x.hold,
		Settle: func(ctx context.Context, earlier store.Attempt, committed bool) error {
			return x.w.e.Store.Settle(ctx, earlier.ID, committed)
		},
		Advance:  x.advance,
		SavePlan: x.savePlan,
		Report:   x.report,
	}
	defer func() {
		if p := recover(); p != nil {
			x.log.Error(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			err = fault.New(fault.Internal, "a defect of etl-craft ended the task: %v", p).WithHint("see %s", x.log.path)
		}
	}()
	result, err = x.w.e.handlers[x.task.Handler].Run(bounded, x.w.env, a)
	return result, x.because(bounded, err)
}

// statuses are the states of the run's tasks now, by their codes.
func (w *work) statuses(ctx context.Context) (map[string]string, error) {
	rows, err := w.e.Store.TaskRuns(ctx, w.run.ID)
	statuses := make(map[string]string, len(rows))
	for _, r := range rows {
		statuses[r.TaskCode] = r.Status
	}
	return statuses, err
}

// because replaces an error by the reason for which the task's statements were cancelled. A wait for a lock, and a commit
// of which nothing is known, say more than that reason.
func (x *execution) because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || fault.Has(err, fault.LockTimeout) || fault.Has(err, fault.CommitUnknown) {
		return err
	}
	was := fault.As(err)
	var now *fault.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		now = fault.New(fault.TaskTimeout, "the task ran longer than its %s", x.timeout).WithHint("raise TASK_TIMEOUT_SECONDS of the task, or make its SELECT faster")
	case errors.As(cause, &now):
		copied := *now
		now = &copied
	default:
		now = fault.New(fault.TaskCancelled, "the task was interrupted")
	}
	now.Action, now.Target, now.Step, now.SQL, now.Err = was.Action, was.Target, was.Step, was.SQL, err
	return now
}

// hold takes a lock and keeps it until the outcome is recorded. Losing it cancels the attempt.
func (x *execution) hold(ctx context.Context, key locks.Key, holder locks.Holder) error {
	holder.Pipeline, holder.Task = x.w.g.Pipeline.Code, x.task.Code
	holder.PipelineRunID, holder.TaskRunID = x.w.run.ID, x.row.ID
	lock, err := x.w.e.Locker.Lock(ctx, key, holder, x.w.env.LockWait)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.locks = append(x.locks, lock)
	x.mu.Unlock()
	x.watches.Go(func() {
		select {
		case <-lock.Lost():
			x.cancel(fault.New(fault.LockLost, "the lock on %s was lost", holder.What))
		case <-x.finished:
		}
	})
	return nil
}

// advance makes progress durable while this process still holds what it needs for the step that follows.
func (x *execution) advance(ctx context.Context, p store.Progress) error {
	x.mu.Lock()
	held := x.locks
	p.SelectSHA256, p.PlanSHA256 = x.selectSHA256, x.plan
	x.mu.Unlock()
	for _, lock := range held {
		if err := lock.Check(ctx); err != nil {
			return err
		}
	}
	if err := x.w.e.Store.Advance(ctx, x.attempt.ID, x.w.e.id, p); err != nil {
		return err
	}
	faultpoint.Hit("phase recorded")
	return nil
}

func (x *execution) savePlan(plan *warehouses.Plan, selectSHA256 string) error {
	path := strings.TrimSuffix(x.log.path, ".log") + ".plan.sql"
	if err := os.WriteFile(path, []byte(plan.String()), 0o600); err != nil {
		return fault.New(fault.Internal, "the plan cannot be kept beside the log: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.selectSHA256, x.plan = selectSHA256, plan.SHA256()
	return nil
}

// logError writes all that is known of a failure, which the one line of the Engine DB cannot hold.
func (x *execution) logError(err error) {
	if err == nil {
		return
	}
	f := fault.As(err)
	x.log.Error(fmt.Sprintf("%s: %v", f.Code, err))
	if f.SQL != "" {
		x.log.Error("the statement that failed", "sql", f.SQL)
	}
	if f.Hint != "" {
		x.log.Info("hint: " + f.Hint)
	}
}

func (x *execution) report(step string) {
	if x.w.e.Observer != nil {
		x.w.e.Observer.TaskStep(x.task.Code, step)
	}
}

// outcome is what to record of an attempt that ended with err.
func (x *execution) outcome(run context.Context, result handlers.Result, err error) store.Outcome {
	o := store.Outcome{AttemptID: x.attempt.ID, Owner: x.w.e.id, SelectSHA256: x.selectSHA256, PlanSHA256: x.plan}
	if err == nil {
		o.Status, o.TaskStatus, o.Consume = store.Success, store.Success, hasGates(x.task)
		o.Counts, o.TaskCounts, o.ForgetTarget = result.Counts, result.TaskCounts, result.ForgetTarget
		return o
	}
	f := fault.As(err)
	o.Status, o.TaskStatus, o.Retryable = store.Failed, store.Failed, f.Retryable
	o.ErrorCode, o.Error, o.ErrorStep, o.ErrorHint = string(f.Code), oneLine(f.Error()), f.Step, f.Hint
	if f.SQL != "" && f.Hint == "" && x.log != nil {
		o.ErrorHint = "the statement is in " + x.w.e.inProject(x.log.path)
	}
	switch {
	case run.Err() != nil || f.Code == fault.LockLost:
		o.Status, o.TaskStatus = store.Cancelled, x.w.afterInterrupt(run)
	case f.Code == fault.TaskTimeout:
		o.Status = store.TimedOut
	}
	// An outside orchestrator has retries of its own.
	if o.Status != store.Cancelled && f.Retryable && !x.w.e.remote() {
		if wait, ok := x.retries.wait(retriesUsed(x.earlier)); ok {
			o.TaskStatus, o.RetryIn = store.Pending, wait
		}
	}
	return o
}

// inProject shortens the path of a file in the project folder.
func (e *Engine) inProject(path string) string {
	if short, err := filepath.Rel(e.Config.Dir, path); err == nil && filepath.IsLocal(short) {
		return short
	}
	return path
}

// afterInterrupt is the status of a task whose attempt was interrupted. An outside orchestrator decides itself whether
// there is another attempt.
func (w *work) afterInterrupt(run context.Context) string {
	if w.e.remote() || endedBy(run) != nil {
		return store.Cancelled
	}
	return store.Pending
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// record writes the outcome, patiently: a finished task is not to be lost to a short outage.
func (x *execution) record(ctx context.Context, o store.Outcome) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := x.w.e.Store.FinishAttempt(ctx, o)
		if err != nil && !fault.Has(err, fault.EngineUnreachable) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(recordPatience))
	return err
}

func (x *execution) release() error {
	var errs []error
	for _, lock := range x.locks {
		errs = append(errs, lock.Release())
	}
	return errors.Join(errs...)
}

// tell says to those who watch how the attempt ended.
func (x *execution) tell(o store.Outcome) {
	log := x.w.e.Log.With("pipeline", x.w.g.Pipeline.Code, "task", x.task.Code, "attempt", x.attempt.Number)
	if o.Status == store.Success {
		log.Info(fmt.Sprintf("succeeded (%.2fs)", time.Since(*x.attempt.StartedAt).Seconds()))
	} else {
		text := fmt.Sprintf("%s: %s: %s", strings.ToLower(o.Status), o.ErrorCode, o.Error)
		if o.TaskStatus == store.Pending && o.Status != store.Cancelled {
			text += retryText(o.RetryIn)
		}
		log.Error(text)
	}
	if x.w.e.Observer == nil {
		return
	}
	row := *x.row
	now := time.Now().UTC()
	row.Status, row.SkipReason, row.Attempts, row.Counts = o.TaskStatus, "", x.attempt.Number, o.TaskCounts
	row.ErrorCode, row.Error, row.ErrorStep, row.ErrorHint = o.ErrorCode, o.Error, o.ErrorStep, o.ErrorHint
	row.TargetName, row.StartedAt, row.EndedAt = x.w.target(x.task), x.attempt.StartedAt, &now
	if o.RetryIn > 0 {
		due := now.Add(o.RetryIn)
		row.NotBefore = &due
	}
	x.w.e.Observer.TaskEnded(taskDocument(&row))
}
