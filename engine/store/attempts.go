package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
)

func scanAttempt(row scanner) (*Attempt, error) {
	var a Attempt
	var host sql.NullString
	var pid sql.NullInt64
	columns := []any{&a.ID, &a.TaskRunID, &a.Number, &a.Status, &a.Phase, instantOrNil(&a.Instant), text(&a.Witness),
		yesOrNil(&a.Committed), &a.OwnerID, &host, &pid, yes(&a.LeaseExpired), instant(&a.QueuedAt), instantOrNil(&a.StartedAt),
		instantOrNil(&a.EndedAt), instantOrNil(&a.NotBefore), yes(&a.Retryable), text(&a.ErrorCode), text(&a.Error),
		text(&a.ErrorStep), text(&a.ErrorHint), text(&a.LogPath), text(&a.SelectSHA256), text(&a.PlanSHA256)}
	columns = append(columns, counts(&a.Planned)...)
	err := row.Scan(append(columns, counts(&a.Counts)...)...)
	a.Host, a.PID = host.String, int(pid.Int64)
	return &a, err
}

// Attempts reads the attempts of a task run, the first first.
func (s *Store) Attempts(ctx context.Context, taskRunID int64) ([]Attempt, error) {
	var attempts []Attempt
	err := s.read(ctx, "read the attempts", func(t *tx) error {
		return t.each("attempts", func(rows *sql.Rows) error {
			a, err := scanAttempt(rows)
			attempts = append(attempts, *a)
			return err
		}, taskRunID)
	})
	return attempts, err
}

// StartAttempt inserts the next attempt of a task run, RUNNING, and makes the task run IN_PROGRESS, whatever it was before.
// It fails with TASK_STATE when another attempt is alive or the task run is not as From and Attempts say, with RUN_ENDED or
// RUN_CANCELLED when the run is not unfinished, with RUN_OWNED when it is not RunOwner's, and with PAUSED.
func (s *Store) StartAttempt(ctx context.Context, a StartAttempt) (*Attempt, error) {
	attempt := &Attempt{
		TaskRunID: a.TaskRunID, Status: Running, Phase: PhaseStarted, OwnerID: a.Owner, Host: a.Host, PID: a.PID, LogPath: a.LogPath,
	}
	err := s.write(ctx, "start the attempt", func(t *tx) error {
		now, err := t.claimTaskRun(a)
		if err != nil {
			return err
		}
		if err := t.next(attempt, now); err != nil {
			return err
		}
		if a.From != "" && attempt.Number != a.Attempts+1 {
			return fault.New(fault.TaskState, "task run %d had another attempt meanwhile", a.TaskRunID)
		}
		err = t.row("start_attempt", a.TaskRunID, attempt.Number, timeText(*attempt.Instant), a.Owner, Lease.Seconds(), orNull(a.Host),
			orNull(a.PID), orNull(a.LogPath), a.Actor.Name, a.Actor.Kind).Scan(&attempt.ID)
		if err != nil {
			return err
		}
		_, err = t.exec("start_task_run", a.TaskRunID, attempt.Number, orNull(a.TargetObject))
		return err
	})
	if s.b.Classify(err) == Unique {
		return nil, taskRuns(a.TaskRunID)
	}
	if err != nil {
		return nil, err
	}
	return attempt, nil
}

func taskRuns(taskRunID int64) error {
	return fault.New(fault.TaskState, "task run %d has an attempt that is running", taskRunID)
}

// claimTaskRun makes sure that an attempt may start, and that neither the run ends nor another attempt starts meanwhile.
func (t *tx) claimTaskRun(a StartAttempt) (now time.Time, err error) {
	var runID int64
	var runStatus, runOwner, status, pausedBy string
	err = t.row("share_run_of_task", a.TaskRunID).Scan(&runID, &runStatus, text(&runOwner), text(&pausedBy))
	if errors.Is(err, sql.ErrNoRows) {
		return now, fault.New(fault.RunNotFound, "there is no task run %d", a.TaskRunID)
	}
	if err != nil {
		return now, err
	}
	switch {
	case runStatus == Cancelled:
		return now, fault.New(fault.RunCancelled, "run %d was cancelled", runID)
	case runStatus != InProgress:
		return now, runEnded(runID, runStatus)
	case a.RunOwner != "" && a.RunOwner != runOwner:
		return now, runOwned(runID, runOwner)
	case pausedBy != "":
		return now, fault.New(fault.Paused, "the pipeline is paused by %s", pausedBy)
	}
	if err := t.row("lock_task_run", a.TaskRunID).Scan(&status, instant(&now)); err != nil {
		return now, err
	}
	if status == InProgress {
		return now, taskRuns(a.TaskRunID)
	}
	if a.From != "" && status != a.From {
		return now, fault.New(fault.TaskState, "task run %d is %s meanwhile", a.TaskRunID, status)
	}
	return now, nil
}

// next numbers the attempt and gives it an instant later than those of all earlier attempts.
func (t *tx) next(a *Attempt, now time.Time) error {
	now = now.Truncate(time.Microsecond)
	a.QueuedAt, a.StartedAt = now, &now
	var number int
	var last *time.Time
	err := t.row("last_instant", a.TaskRunID).Scan(&number, instantOrNil(&last))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	at := now
	if last != nil && !at.After(*last) {
		at = last.Add(time.Microsecond)
	}
	a.Number, a.Instant = number+1, &at
	return nil
}

func stale(attemptID int64, owner string) error {
	return fault.New(fault.StaleAttempt, "attempt %d is not a running attempt of %s any more", attemptID, owner)
}

// Advance makes progress durable: phase, planned counts and witness, the target as known and its hash version. What
// Progress leaves out stays as it was. It fails with STALE_ATTEMPT when the attempt is not owner's or has ended.
func (s *Store) Advance(ctx context.Context, attemptID int64, owner string, p Progress) error {
	return s.write(ctx, "advance the attempt", func(t *tx) error {
		args := []any{attemptID, owner, p.Phase, orNull(p.Witness), orNull(p.SelectSHA256), orNull(p.PlanSHA256)}
		n, err := t.exec("advance_attempt", append(args, countArgs(p.Planned)...)...)
		if err != nil {
			return err
		}
		if n != 1 {
			return stale(attemptID, owner)
		}
		if p.Target.Name == "" {
			return nil
		}
		if _, err := t.exec("add_target", attemptID, p.Target.Identity, p.Target.Name); err != nil || p.HashVersion == 0 {
			return err
		}
		_, err = t.exec("set_target_hash", p.Target.Identity, p.Target.Name, p.HashVersion, p.CompareColumns)
		return err
	})
}

// Settle records whether an attempt that has ended had committed. It can be said again, but not otherwise.
func (s *Store) Settle(ctx context.Context, attemptID int64, committed bool) error {
	return s.write(ctx, "settle the attempt", func(t *tx) error {
		n, err := t.exec("settle_attempt", attemptID, flag(committed))
		if err != nil || n == 1 {
			return err
		}
		return fault.New(fault.StaleAttempt, "attempt %d is running, or was settled otherwise", attemptID)
	})
}

// FinishAttempt ends an attempt and sets its task run accordingly. It fails with STALE_ATTEMPT, and records nothing, when
// the attempt is not owner's or has ended.
func (s *Store) FinishAttempt(ctx context.Context, o Outcome) error {
	return s.write(ctx, "finish the attempt", func(t *tx) error {
		if o.TaskStatus == Pending {
			if err := t.onlyWhileUnfinished(&o); err != nil {
				return err
			}
		}
		retry := any(nil)
		if o.TaskStatus == Pending {
			retry = o.RetryIn.Seconds()
		}
		shared := []any{retry, orNull(o.ErrorCode), orNull(o.Error), orNull(o.ErrorStep), orNull(o.ErrorHint), orNull(o.TaskLog)}

		task := append([]any{o.AttemptID, o.Owner, o.TaskStatus}, shared...)
		n, err := t.exec("finish_task_run", append(task, countArgs(o.TaskCounts)...)...)
		if err != nil {
			return err
		}
		if n != 1 {
			return stale(o.AttemptID, o.Owner)
		}
		attempt := append([]any{o.AttemptID, o.Owner, o.Status}, shared...)
		attempt = append(attempt, countArgs(o.Counts)...)
		n, err = t.exec("finish_attempt", append(attempt, flag(o.Retryable), orNull(o.SelectSHA256), orNull(o.PlanSHA256))...)
		if err != nil {
			return err
		}
		if n != 1 {
			return stale(o.AttemptID, o.Owner)
		}
		if o.Consume && o.TaskStatus == Success {
			if _, err := t.exec("consume_gates_of_task", o.AttemptID); err != nil {
				return err
			}
		}
		if o.ForgetTarget == nil {
			return nil
		}
		_, err = t.exec("forget_target_hash", o.ForgetTarget.Identity, o.ForgetTarget.Name)
		return err
	})
}

// onlyWhileUnfinished makes a task that would be tried again CANCELLED when its run has been cancelled meanwhile.
func (t *tx) onlyWhileUnfinished(o *Outcome) error {
	var status string
	err := t.row("share_run_of_attempt", o.AttemptID).Scan(&status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return stale(o.AttemptID, o.Owner)
	case err != nil:
		return err
	case status == Cancelled:
		o.TaskStatus = Cancelled
	}
	return nil
}

// LoseAttempts ends the live attempts of deadOwner in a run as LOST, makes their task runs PENDING, or CANCELLED as the
// run is, and returns how many there were. The caller knows that the owner is dead, because it holds the owner's lock.
func (s *Store) LoseAttempts(ctx context.Context, runID int64, deadOwner string) (int, error) {
	var lost int64
	err := s.write(ctx, "lose the attempts", func(t *tx) error {
		run, err := t.lockRun(runID)
		if err != nil {
			return err
		}
		status := Pending
		if run.status == Cancelled {
			status = Cancelled
		}
		if _, err := t.exec("reset_tasks_of_owner", runID, deadOwner, status); err != nil {
			return err
		}
		lost, err = t.exec("lose_attempts", runID, deadOwner)
		return err
	})
	return int(lost), err
}
