package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// TaskRuns reads the tasks of a run, in order of their task ids.
func (s *Store) TaskRuns(ctx context.Context, runID int64) ([]TaskRun, error) {
	var runs []TaskRun
	err := s.read(ctx, "read the tasks of the run", func(t *tx) (err error) {
		runs, err = t.taskRuns(runID)
		return err
	})
	return runs, err
}

func (t *tx) taskRuns(runID int64) ([]TaskRun, error) {
	var runs []TaskRun
	err := t.each("task_runs", func(rows *sql.Rows) error {
		var r TaskRun
		columns := []any{&r.ID, &r.RunID, &r.TaskID, &r.TaskCode, &r.Handler, text(&r.Action), text(&r.TargetName),
			&r.Status, text(&r.SkipReason), &r.Attempts, text(&r.ErrorCode), text(&r.Error), text(&r.ErrorStep),
			text(&r.ErrorHint), instantOrNil(&r.StartedAt), instantOrNil(&r.EndedAt), instantOrNil(&r.NotBefore)}
		err := rows.Scan(append(columns, counts(&r.Counts)...)...)
		runs = append(runs, r)
		return err
	}, runID)
	return runs, err
}

// SkipTasks ends tasks of a run as SKIPPED. Those that are not PENDING any more are left as they are. It fails with RUN_OWNED
// when the run is not the claim's, with RUN_UNFINISHED when a person has changed tasks since, with RUN_CANCELLED and RUN_ENDED.
func (s *Store) SkipTasks(ctx context.Context, runID int64, c Claim, skips []Skip) error {
	if len(skips) == 0 {
		return nil
	}
	list, err := json.Marshal(skips)
	if err != nil {
		return err
	}
	return s.write(ctx, "skip the tasks", func(t *tx) error {
		run, err := t.lockRun(runID)
		if err != nil {
			return err
		}
		switch run.status {
		case Queued, InProgress:
		case Cancelled:
			return fault.New(fault.RunCancelled, "run %d was cancelled", runID)
		default:
			return runEnded(runID, run.status)
		}
		if c.Owner != "" && run.owner != c.Owner {
			return runOwned(runID, run.owner)
		}
		if err := t.nothingNew(runID, c.Seen); err != nil {
			return err
		}
		_, err = t.exec("skip_tasks", runID, string(list))
		return err
	})
}

// TargetRecord reads what the Engine DB knows of a target.
func (s *Store) TargetRecord(ctx context.Context, target TargetName) (TargetRecord, error) {
	var record TargetRecord
	err := s.read(ctx, "read the target's record", func(t *tx) error {
		var known int
		if err := t.row("target_known", target.Identity, target.Name).Scan(&known); err != nil {
			return err
		}
		record.Known = known == 1
		err := t.row("target_hash", target.Identity, target.Name).Scan(&record.HashVersion, &record.CompareColumns)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return record, err
}

// RecordHash records how the hashes in a target are made.
func (s *Store) RecordHash(ctx context.Context, target TargetName, version int, compare string) error {
	return s.write(ctx, "record the target's hashes", func(t *tx) error {
		_, err := t.exec("set_target_hash", target.Identity, target.Name, version, compare)
		return err
	})
}

// ForgetHash records that nobody knows how the hashes in a target are made.
func (s *Store) ForgetHash(ctx context.Context, target TargetName) error {
	return s.write(ctx, "forget the target's hashes", func(t *tx) error {
		_, err := t.exec("forget_target_hash", target.Identity, target.Name)
		return err
	})
}
