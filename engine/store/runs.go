package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/shell"
)

type scanner interface{ Scan(...any) error }

func scanRun(row scanner) (*Run, error) {
	var r Run
	err := row.Scan(&r.ID, &r.PipelineID, &r.PipelineCode, &r.Key, day(&r.Date), &r.Trigger, &r.Status, text(&r.SkipReason),
		instant(&r.StartedAt), instantOrNil(&r.EndedAt), text(&r.OwnerID), yes(&r.LeaseExpired),
		&r.OutputRevision, yes(&r.RepairPending), text(&r.SLAStatus), &r.StartedBy.Name, &r.StartedBy.Kind,
		text(&r.EndedBy.Name), text(&r.EndedBy.Kind))
	return &r, err
}

// RunByID reads a run, nil when there is none.
func (s *Store) RunByID(ctx context.Context, id int64) (*Run, error) {
	return s.run(ctx, "run_by_id", id)
}

// RunByKey reads a run by the key it was started with, nil when there is none.
func (s *Store) RunByKey(ctx context.Context, pipelineID int64, key string) (*Run, error) {
	return s.run(ctx, "run_by_key", pipelineID, key)
}

// UnfinishedRun reads the run that is IN_PROGRESS, else the oldest QUEUED one, nil when there is neither.
func (s *Store) UnfinishedRun(ctx context.Context, pipelineID int64) (*Run, error) {
	return s.run(ctx, "unfinished_run", pipelineID)
}

// NewestRun reads the run with the highest id, nil before the first one.
func (s *Store) NewestRun(ctx context.Context, pipelineID int64) (*Run, error) {
	return s.run(ctx, "history", pipelineID, 1)
}

func (s *Store) run(ctx context.Context, query string, args ...any) (*Run, error) {
	run, err := scanRun(s.b.Reader.QueryRowContext(ctx, s.query(query), args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, "read the run", err)
	}
	return run, nil
}

// History reads the newest runs of a pipeline, the newest first.
func (s *Store) History(ctx context.Context, pipelineID int64, limit int) ([]Run, error) {
	var runs []Run
	err := s.read(ctx, "read the history", func(t *tx) error {
		return t.each("history", func(rows *sql.Rows) error {
			run, err := scanRun(rows)
			runs = append(runs, *run)
			return err
		}, pipelineID, limit)
	})
	return runs, err
}

// RunSince reads the newest run of a pipeline for a date that was started since newest was its newest one, nil when there is
// none. Runs of a backfill and stand-ins do not count.
func (s *Store) RunSince(ctx context.Context, pipelineID, newest int64, date string) (*Run, error) {
	return s.run(ctx, "run_since", pipelineID, newest, 0, date)
}

// AdmitRun inserts a run that is IN_PROGRESS, with a PENDING row for each active task. It fails with RUN_ACTIVE when
// another run of the pipeline is IN_PROGRESS or has the key, when one for the date was started since r.Newest, and when what the gates
// have chosen was used up meanwhile.
func (s *Store) AdmitRun(ctx context.Context, r NewRun) (*Run, error) {
	var run *Run
	err := s.write(ctx, "admit the run", func(t *tx) error {
		var id int64
		err := t.row("admit_run", r.PipelineID, r.Key, r.Date, r.Trigger, orNull(r.OwnerID), Lease.Seconds(),
			orNull(r.ConfigSHA256), r.Actor.Name, r.Actor.Kind).Scan(&id)
		if err != nil {
			return err
		}
		// While this run is IN_PROGRESS no other one can start or end, so what is judged from here on stays true.
		if err := t.noneSince(r, id); err != nil {
			return err
		}
		if _, err = t.exec("add_tasks", id); err != nil {
			return err
		}
		if err := t.recordGates(r.Actor, r.PipelineID, id, 0, r.Gates); err != nil {
			return err
		}
		if err := t.gatesStillHold(id); err != nil {
			return err
		}
		if r.Reason != "" {
			if _, err := t.exec("add_intervention", r.PipelineID, id, "NEW_RUN", nil, InProgress, r.Reason, r.Actor.Name, r.Actor.Kind); err != nil {
				return err
			}
		}
		run, err = scanRun(t.row("run_by_id", id))
		return err
	})
	if s.b.Classify(err) != Unique {
		return run, err
	}
	active, readErr := s.RunByKey(ctx, r.PipelineID, r.Key)
	if active == nil && readErr == nil {
		active, readErr = s.UnfinishedRun(ctx, r.PipelineID)
	}
	if readErr != nil {
		return nil, readErr
	}
	return nil, runActive(active)
}

// noneSince fails when another run of the pipeline was started since the one who asks has looked.
func (t *tx) noneSince(r NewRun, id int64) error {
	if r.Newest == nil {
		return nil
	}
	other, err := scanRun(t.row("run_since", r.PipelineID, *r.Newest, id, r.Date))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(fault.RunActive, "run %d of the pipeline, for the same date, was started meanwhile", other.ID).
		WithHint("etl-craft status --pipeline %s --run-id %d", other.PipelineCode, other.ID)
}

// gatesStillHold fails when a run that a gate has chosen was used up between the decision and the admission.
func (t *tx) gatesStillHold(id int64) error {
	var used int64
	err := t.row("used_up_of_run", id).Scan(&used)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(fault.RunActive, "run %d, which the pipeline depends on, was used up by another run of it meanwhile", used).
		WithHint("the same command again")
}

// runActive names the run that is in the way. It may have ended since it was.
func runActive(run *Run) error {
	if run == nil {
		return fault.New(fault.RunActive, "another run of the pipeline was in progress a moment ago").
			WithHint("the same command again")
	}
	if run.Ended() {
		return fault.New(fault.RunActive, "run %d of pipeline %s has the key %s already", run.ID, run.PipelineCode, run.Key).
			WithHint("etl-craft status --pipeline %s --run-id %d", run.PipelineCode, run.ID)
	}
	return fault.New(fault.RunActive, "run %d of pipeline %s is unfinished", run.ID, run.PipelineCode).WithHint("%s", run.GoOn())
}

// GoOn is the command that finishes an unfinished run. One of an orchestrator, which may have given it up, is only ended.
func (r *Run) GoOn() string {
	if r.Trigger == TriggerOrchestrator {
		return fmt.Sprintf("etl-craft run --pipeline %s --finalize-only --run-key %s", r.PipelineCode, shell.Word(r.Key))
	}
	return fmt.Sprintf("etl-craft run --pipeline %s --run-id %d", r.PipelineCode, r.ID)
}

// ClaimRun makes owner the owner of an unfinished run that belongs to previousOwner, "" for nobody. It fails with
// RUN_OWNED when somebody else was faster, and with RUN_ENDED.
func (s *Store) ClaimRun(ctx context.Context, runID int64, owner, previousOwner string) error {
	err := s.write(ctx, "claim the run", func(t *tx) error {
		n, err := t.exec("claim_run", runID, owner, previousOwner, Lease.Seconds())
		if err != nil || n == 1 {
			return err
		}
		return t.notOwned(runID)
	})
	if s.b.Classify(err) != Unique {
		return err
	}
	run, readErr := s.RunByID(ctx, runID)
	if run != nil {
		run, readErr = s.UnfinishedRun(ctx, run.PipelineID)
	}
	if readErr != nil {
		return readErr
	}
	return runActive(run)
}

// notOwned says why a run is not there to be changed by the one who wanted to.
func (t *tx) notOwned(runID int64) error {
	run, err := scanRun(t.row("run_by_id", runID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return noRun(runID)
	case err != nil:
		return err
	case run.Ended():
		return runEnded(runID, run.Status)
	}
	return runOwned(runID, run.OwnerID)
}

func noRun(id int64) error { return fault.New(fault.RunNotFound, "there is no run %d", id) }

func runEnded(id int64, status string) error {
	return fault.New(fault.RunEnded, "run %d has ended %s", id, status)
}

func runOwned(id int64, owner string) error {
	if owner == "" {
		return fault.New(fault.RunOwned, "run %d is not owned by this process any more", id)
	}
	return fault.New(fault.RunOwned, "run %d is owned by %s", id, owner)
}

// ReleaseRun leaves a run IN_PROGRESS without an owner; RUN_OWNED when it is not owner's.
func (s *Store) ReleaseRun(ctx context.Context, runID int64, owner string) error {
	return s.write(ctx, "release the run", func(t *tx) error {
		n, err := t.exec("release_run", runID, owner)
		if err != nil || n == 1 {
			return err
		}
		return t.notOwned(runID)
	})
}

// SyncTasks gives each task that joined the pipeline since the run's admission a PENDING row, and ends PENDING rows of
// retired tasks as SKIPPED with reason OPERATOR: somebody took the task away.
func (s *Store) SyncTasks(ctx context.Context, runID int64) error {
	return s.write(ctx, "sync the tasks of the run", func(t *tx) error {
		if err := t.lockUnfinished(runID); err != nil {
			return err
		}
		if _, err := t.exec("add_tasks", runID); err != nil {
			return err
		}
		_, err := t.exec("skip_retired_tasks", runID)
		return err
	})
}

// ReopenRun makes an ended run IN_PROGRESS again and marks it as a repair, whose next success is a new revision of its
// output. A CANCELLED run fails with RUN_ENDED, an unfinished one with RUN_OWNED; RUN_ACTIVE names another run in progress.
func (s *Store) ReopenRun(ctx context.Context, r Reopen) error {
	var pipelineID int64
	err := s.write(ctx, "reopen the run", func(t *tx) error {
		locked, err := t.lockRun(r.RunID)
		if err != nil {
			return err
		}
		pipelineID = locked.pipelineID
		switch locked.status {
		case Cancelled:
			return runEnded(r.RunID, Cancelled)
		case Queued, InProgress:
			return fault.New(fault.RunOwned, "run %d is unfinished already", r.RunID)
		}
		if _, err := t.exec("reopen_run", r.RunID, orNull(r.Owner), Lease.Seconds()); err != nil {
			return err
		}
		_, err = t.exec("add_intervention", pipelineID, r.RunID, "REOPEN", locked.status, InProgress, r.Reason, r.Actor.Name, r.Actor.Kind)
		return err
	})
	if s.b.Classify(err) != Unique {
		return err
	}
	run, readErr := s.UnfinishedRun(ctx, pipelineID)
	if readErr != nil {
		return readErr
	}
	return runActive(run)
}

// ResetTasks makes tasks that have ended PENDING again, without counts and error. Their attempts stay.
func (s *Store) ResetTasks(ctx context.Context, runID int64, scope ResetScope) error {
	return s.write(ctx, "reset the tasks of the run", func(t *tx) error {
		if err := t.lockUnfinished(runID); err != nil {
			return err
		}
		_, err := t.exec("reset_tasks", runID, string(scope))
		return err
	})
}

type lockedRun struct {
	pipelineID    int64
	status, owner string
	started, now  time.Time
}

// lockRun keeps others from changing the run until the end of the transaction. Rows are locked in the order run, task run,
// attempt everywhere, so that no two transactions wait for each other.
func (t *tx) lockRun(id int64) (lockedRun, error) {
	var r lockedRun
	err := t.row("lock_run", id).Scan(&r.pipelineID, &r.status, &r.owner, instant(&r.started), instant(&r.now))
	if errors.Is(err, sql.ErrNoRows) {
		return r, noRun(id)
	}
	return r, err
}

// lockUnfinished keeps a run from ending until the end of the transaction; RUN_ENDED when it has.
func (t *tx) lockUnfinished(id int64) error {
	run, err := t.lockRun(id)
	if err == nil && run.status != Queued && run.status != InProgress {
		return runEnded(id, run.status)
	}
	return err
}

// EndRun ends a run and releases it. A repair that ends SUCCESS gets a new OUTPUT_REVISION. With CANCELLED its PENDING
// tasks are CANCELLED too. It fails with RUN_UNFINISHED while tasks are open, with RUN_ENDED and with RUN_OWNED.
func (s *Store) EndRun(ctx context.Context, e RunEnd) error {
	return s.write(ctx, "end the run", func(t *tx) error {
		run, err := t.lockRun(e.RunID)
		if err != nil {
			return err
		}
		if run.status != Queued && run.status != InProgress {
			return runEnded(e.RunID, run.status)
		}
		if run.owner != e.Owner {
			return runOwned(e.RunID, run.owner)
		}
		if err := t.nothingNew(e.RunID, e.Seen); err != nil {
			return err
		}
		if err := t.closeTasks(e); err != nil {
			return err
		}
		if err := t.close(e.RunID, run, e.Status, e.SkipReason, e.Actor); err != nil {
			return err
		}
		if e.Consume && e.Status == Success {
			_, err = t.exec("consume_gates_of_run", e.RunID)
		}
		return err
	})
}

func (t *tx) nothingNew(runID int64, seen *int64) error {
	if seen == nil {
		return nil
	}
	g, err := scanSignal(t.row("run_signal", runID))
	if err == nil && g.Intervention != *seen {
		return fault.New(fault.RunUnfinished, "tasks of run %d were changed meanwhile", runID)
	}
	return err
}

func (t *tx) closeTasks(e RunEnd) error {
	if e.Status == Cancelled {
		if _, err := t.exec("cancel_pending_tasks", e.RunID); err != nil {
			return err
		}
	}
	var running, pending int
	if err := t.row("open_tasks", e.RunID).Scan(&running, &pending); err != nil {
		return err
	}
	if running+pending == 0 {
		return nil
	}
	return fault.New(fault.RunUnfinished, "run %d has %d running and %d pending tasks", e.RunID, running, pending)
}

// close ends an unfinished run, whoever owns it, and tells those who listen.
func (t *tx) close(runID int64, run lockedRun, status, skipReason string, by Actor) error {
	f, err := t.slaFacts(runID)
	if err != nil {
		return err
	}
	sla := f.decided(run)
	if _, err := t.exec("end_run", runID, status, orNull(skipReason), orNull(sla), orNull(by.Name), orNull(by.Kind)); err != nil {
		return err
	}
	if _, err := t.exec("end_gate_waits_of_run", runID); err != nil {
		return err
	}
	if sla == "BREACHED" && f.status == "" {
		if err := t.notify(runID, f, SLABreached); err != nil {
			return err
		}
	}
	return t.notify(runID, f, status)
}

// Heartbeat extends the leases of owner's runs and live attempts to lease from now.
func (s *Store) Heartbeat(ctx context.Context, owner string, lease time.Duration) error {
	return s.write(ctx, "extend the leases", func(t *tx) error {
		if _, err := t.exec("extend_run_leases", owner, lease.Seconds()); err != nil {
			return err
		}
		_, err := t.exec("extend_attempt_leases", owner, lease.Seconds())
		return err
	})
}
