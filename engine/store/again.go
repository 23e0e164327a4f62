package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// Interventions that make a task run again.
const (
	ActionRerun  = "RERUN"               // a finished task
	ActionReset  = "RESET"               // whatever its status was
	ActionIgnore = "IGNORE_DEPENDENCIES" // an unfinished task, whatever its dependencies say
)

// Again makes tasks of a run PENDING once more because somebody asks for it.
type Again struct {
	RunID int64
	// Owner is who must own the run if it is unfinished, "" for nobody; an ended run is reopened and belongs to Owner then.
	Owner  string
	Actor  Actor
	Reason string

	All bool // every task that has ended; what follows is for one task

	TaskRun    int64   // 0 when the task has joined the pipeline only now
	From       string  // the task's status, as the one who asks has seen it
	Action     string  // ActionRerun, ActionReset or ActionIgnore
	Downstream []int64 // task runs that become PENDING with it, those that have ended
}

// RunAgain reopens the run if it has ended, makes its tasks PENDING, and records what was asked for, all in one step. A skip
// that another pipeline has used up stays. A run in which a finished task runs again is a repair, as a reopened one is. It
// fails with RUN_ENDED for a CANCELLED run, with RUN_OWNED, RUN_ACTIVE, and with TASK_STATE when a task is running or not
// in the status From.
func (s *Store) RunAgain(ctx context.Context, a Again) error {
	var run lockedRun
	err := s.write(ctx, "make tasks run again", func(t *tx) (err error) {
		if run, err = t.lockRun(a.RunID); err != nil {
			return err
		}
		if err := t.openAgain(run, a); err != nil {
			return err
		}
		if a.All {
			return t.allAgain(run, a)
		}
		return t.tasksAgain(a)
	})
	if s.b.Classify(err) != Unique {
		return err
	}
	other, readErr := s.UnfinishedRun(ctx, run.pipelineID)
	if readErr != nil {
		return readErr
	}
	return runActive(other)
}

func (t *tx) openAgain(run lockedRun, a Again) error {
	switch {
	case run.status == Cancelled:
		return runEnded(a.RunID, Cancelled)
	case run.unfinished() && run.owner != a.Owner:
		return runOwned(a.RunID, run.owner)
	case run.unfinished():
		return nil
	case a.Action == ActionIgnore:
		return runEnded(a.RunID, run.status)
	}
	if _, err := t.exec("reopen_run", a.RunID, orNull(a.Owner), Lease.Seconds()); err != nil {
		return err
	}
	_, err := t.exec("add_intervention", run.pipelineID, a.RunID, "REOPEN", run.status, InProgress, a.Reason, a.Actor.Name, a.Actor.Kind)
	return err
}

func (r lockedRun) unfinished() bool { return r.status == Queued || r.status == InProgress }

func (t *tx) allAgain(run lockedRun, a Again) error {
	_, err := t.exec("add_intervention", run.pipelineID, a.RunID, ActionReset, run.status, nil, a.Reason, a.Actor.Name, a.Actor.Kind)
	if err != nil {
		return err
	}
	n, err := t.exec("reset_tasks", a.RunID, string(ResetAll))
	if err != nil || n == 0 {
		return err
	}
	_, err = t.exec("mark_repair", a.RunID)
	return err
}

func (t *tx) tasksAgain(a Again) error {
	keep, err := t.consumedTasks(a.RunID)
	if err != nil {
		return err
	}
	statuses := map[int64]string{}
	err = t.each("lock_tasks_of_run", func(rows *sql.Rows) error {
		var id int64
		var status string
		err := rows.Scan(&id, &status)
		statuses[id] = status
		return err
	}, a.RunID)
	if err != nil {
		return err
	}
	if a.TaskRun != 0 {
		if status := statuses[a.TaskRun]; status != a.From {
			return fault.New(fault.TaskState, "task run %d is %s, and was %s a moment ago", a.TaskRun, status, a.From).WithHint("the same command again")
		}
		if err := t.taskAgain(a, a.Action, []int64{a.TaskRun}); err != nil {
			return err
		}
	}
	var reset []int64
	for _, id := range a.Downstream {
		switch status := statuses[id]; {
		case status == InProgress:
			return taskRuns(id)
		case status == Pending, status == Skipped && slices.Contains(keep, id):
		default:
			reset = append(reset, id)
		}
	}
	if err := t.taskAgain(a, ActionReset, reset); err != nil {
		return err
	}
	finished := a.Action != ActionIgnore && a.TaskRun != 0 && a.From != Pending
	if !finished && len(reset) == 0 {
		return nil
	}
	_, err = t.exec("mark_repair", a.RunID)
	return err
}

// consumedTasks are the task runs of a run that dependents in other pipelines have used up.
func (t *tx) consumedTasks(runID int64) ([]int64, error) {
	var ids []int64
	err := t.each("consumed_tasks", func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, runID)
	return ids, err
}

// taskAgain makes task runs PENDING and keeps what they were as interventions.
func (t *tx) taskAgain(a Again, action string, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	if _, err := t.exec("add_task_interventions", a.RunID, string(list), action, a.Reason, a.Actor.Name, a.Actor.Kind); err != nil {
		return err
	}
	_, err = t.exec("reset_these_tasks", a.RunID, string(list))
	return err
}

// HasConsumed reports whether a task of a run has succeeded in it before, and used up what it depends on in other pipelines.
func (s *Store) HasConsumed(ctx context.Context, runID, taskID int64) (bool, error) {
	var n int
	err := s.read(ctx, "read what the task has used up", func(t *tx) error {
		return t.row("consumed_by_task", runID, taskID).Scan(&n)
	})
	return n > 0, err
}

// Backfills reads the newest runs of backfills of a pipeline, the newest first.
func (s *Store) Backfills(ctx context.Context, pipelineID int64, limit int) ([]Run, error) {
	var runs []Run
	err := s.read(ctx, "read the backfills", func(t *tx) error {
		return t.each("backfills", func(rows *sql.Rows) error {
			run, err := scanRun(rows)
			runs = append(runs, *run)
			return err
		}, pipelineID, limit)
	})
	return runs, err
}
