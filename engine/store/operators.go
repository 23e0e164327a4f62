package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// Signal is what a process that works on a run has to know of what others did to it.
type Signal struct {
	Status       string // of the run
	PausedBy     string // "" when the pipeline is not paused
	PauseWhy     string
	Intervention int64 // the newest one that changed tasks, 0 for none
	SLAPassed    bool  // the run has taken longer than its SLA, and that is not recorded yet
}

// Signal reads what has been done to a run.
func (s *Store) Signal(ctx context.Context, runID int64) (Signal, error) {
	g, err := scanSignal(s.b.Reader.QueryRowContext(ctx, s.query("run_signal"), runID))
	if errors.Is(err, sql.ErrNoRows) {
		return g, noRun(runID)
	}
	if err != nil {
		return g, s.failed(ctx, "read the run", err)
	}
	return g, nil
}

func scanSignal(row *sql.Row) (g Signal, err error) {
	var f slaFacts
	var run lockedRun
	err = row.Scan(&g.Status, text(&g.PausedBy), text(&g.PauseWhy), &g.Intervention, &f.hours, text(&f.status), instant(&run.started), instant(&run.now))
	g.SLAPassed = err == nil && f.status == "" && f.passed(run)
	return g, err
}

// TaskMark sets the status of one task of a run.
type TaskMark struct {
	RunID      int64
	TaskID     int64
	TaskCode   string  // for messages
	Status     string  // Success, Failed or Skipped
	Rows       *int64  // ROWS_WRITTEN of a SUCCESS, nil when nothing is known
	Downstream []int64 // ids of the tasks that wait for it, directly or not
	Action     string  // ActionMark, or ActionSkip for a task that is PENDING or FAILED
	Reason     string
	Actor      Actor
}

// Actions of interventions that this file records.
const (
	ActionMark   = "MARK"
	ActionSkip   = "SKIP"
	ActionCancel = "CANCEL"
	ActionNewRun = "NEW_RUN"
)

// MarkTask sets the status of a task. An ended run is reopened, and tasks downstream that were skipped for what the task
// was are PENDING again. It fails with TASK_STATE when the task is running, or may not be skipped, with RUN_ENDED for a
// CANCELLED run, with TASK_NOT_FOUND when the run does not have the task, and with RUN_ACTIVE when the run would have to
// be reopened beside another one.
func (s *Store) MarkTask(ctx context.Context, m TaskMark) error {
	var pipelineID int64
	err := s.write(ctx, "mark the task", func(t *tx) error {
		run, err := t.lockRun(m.RunID)
		if err != nil {
			return err
		}
		pipelineID = run.pipelineID
		if run.status == Cancelled {
			return runEnded(m.RunID, Cancelled)
		}
		var taskRunID int64
		var status, message string
		err = t.row("task_of_run", m.RunID, m.TaskID).Scan(&taskRunID, &status, text(&message))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.TaskNotFound, "run %d has no task %s, which joined the pipeline later", m.RunID, m.TaskCode)
		}
		if err != nil {
			return err
		}
		switch {
		case status == InProgress:
			return fault.New(fault.TaskState, "task %s is running in run %d", m.TaskCode, m.RunID)
		case m.Action == ActionSkip && status != Pending && status != Failed:
			return fault.New(fault.TaskState, "task %s is %s in run %d; only a PENDING or FAILED task is skipped", m.TaskCode, status, m.RunID)
		}
		if run.status != Queued && run.status != InProgress {
			if _, err := t.exec("reopen_run", m.RunID, nil, Lease.Seconds()); err != nil {
				return err
			}
			err := t.intervene(pipelineID, m.RunID, 0, "REOPEN", run.status, InProgress, nil, "", m.Reason, m.Actor)
			if err != nil {
				return err
			}
		}
		if _, err := t.exec("mark_task", taskRunID, m.Status, m.Rows, m.Reason); err != nil {
			return err
		}
		if err := t.intervene(pipelineID, m.RunID, m.TaskID, m.Action, status, m.Status, m.Rows, message, m.Reason, m.Actor); err != nil {
			return err
		}
		return t.resetSkipped(run, m)
	})
	if s.b.Classify(err) != Unique {
		return err
	}
	return s.inTheWay(ctx, pipelineID)
}

// resetSkipped makes tasks that the engine skipped PENDING again.
func (t *tx) resetSkipped(run lockedRun, m TaskMark) error {
	downstream, err := json.Marshal(append([]int64{}, m.Downstream...))
	if err != nil {
		return err
	}
	ids := []int64{}
	err = t.each("skipped_by_engine", func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, m.RunID, string(downstream))
	if err != nil || len(ids) == 0 {
		return err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	if _, err := t.exec("note_resets", string(list), run.pipelineID, m.Reason, m.Actor.Name, m.Actor.Kind); err != nil {
		return err
	}
	_, err = t.exec("reset_task_runs", string(list))
	return err
}

func (t *tx) intervene(pipelineID, runID, taskID int64, action, from, to string, rows *int64, message, reason string, by Actor) error {
	_, err := t.exec("add_run_intervention", pipelineID, runID, orNull(taskID), action, orNull(from), orNull(to), rows,
		orNull(message), reason, by.Name, by.Kind)
	return err
}

// inTheWay is the error for a run that cannot become unfinished because another one is.
func (s *Store) inTheWay(ctx context.Context, pipelineID int64) error {
	run, err := s.UnfinishedRun(ctx, pipelineID)
	if err != nil {
		return err
	}
	return runActive(run)
}

// RunMark sets the status of a run.
type RunMark struct {
	RunID  int64
	Status string // Success, Failed or Skipped
	Reason string
	Actor  Actor
}

// MarkRun ends a run with a status, or changes that of an ended one; its tasks stay as they are, and it consumes nothing.
// It fails with RUN_UNFINISHED while a task is running and with RUN_ENDED for a CANCELLED run.
func (s *Store) MarkRun(ctx context.Context, m RunMark) error {
	return s.write(ctx, "mark the run", func(t *tx) error {
		run, err := t.lockRun(m.RunID)
		if err != nil {
			return err
		}
		if run.status == Cancelled {
			return runEnded(m.RunID, Cancelled)
		}
		if err := t.noneRunning(m.RunID); err != nil {
			return err
		}
		if run.status == Queued || run.status == InProgress {
			err = t.close(m.RunID, run, m.Status, operatorIf(m.Status), m.Actor)
		} else {
			_, err = t.exec("mark_ended_run", m.RunID, m.Status, orNull(operatorIf(m.Status)), m.Actor.Name, m.Actor.Kind)
		}
		if err != nil {
			return err
		}
		return t.intervene(run.pipelineID, m.RunID, 0, ActionMark, run.status, m.Status, nil, "", m.Reason, m.Actor)
	})
}

// operatorIf is the reason of a run that an operator has SKIPPED.
func operatorIf(status string) string {
	if status == Skipped {
		return SkipOperator
	}
	return ""
}

func (t *tx) noneRunning(runID int64) error {
	var running, pending int
	if err := t.row("open_tasks", runID).Scan(&running, &pending); err != nil || running == 0 {
		return err
	}
	return fault.New(fault.TaskState, "%d task(s) of run %d are running", running, runID)
}

// SkipRun ends the PENDING tasks of an unfinished run as SKIPPED, and the run with the status and skip reason that outcome
// makes of all its tasks; a SUCCESS uses up upstream runs. It fails with TASK_STATE while a task is running and with RUN_ENDED.
func (s *Store) SkipRun(ctx context.Context, runID int64, reason string, by Actor, outcome func([]TaskRun) (status, skipReason string)) error {
	return s.write(ctx, "skip the run", func(t *tx) error {
		run, err := t.lockRun(runID)
		if err != nil {
			return err
		}
		if run.status != Queued && run.status != InProgress {
			return runEnded(runID, run.status)
		}
		if err := t.noneRunning(runID); err != nil {
			return err
		}
		if _, err := t.exec("skip_pending_tasks", runID, reason); err != nil {
			return err
		}
		tasks, err := t.taskRuns(runID)
		if err != nil {
			return err
		}
		status, skipReason := outcome(tasks)
		if err := t.close(runID, run, status, skipReason, by); err != nil {
			return err
		}
		if status == Success { // by the tasks that have worked on the upstream runs
			if _, err := t.exec("consume_gates_of_run", runID); err != nil {
				return err
			}
		}
		return t.intervene(run.pipelineID, runID, 0, ActionSkip, run.status, status, nil, "", reason, by)
	})
}

// StandIn is a run that ended without running anything.
type StandIn struct {
	PipelineID int64
	Key, Date  string
	Status     string // Success, Failed or Skipped
	Reason     string
	Actor      Actor
}

// AddStandIn inserts a run that has ended already, for dependents to see. RUN_ACTIVE names a run that is unfinished.
func (s *Store) AddStandIn(ctx context.Context, i StandIn) (*Run, error) {
	var run *Run
	err := s.write(ctx, "add the stand-in run", func(t *tx) error {
		switch active, err := scanRun(t.row("unfinished_run", i.PipelineID)); {
		case err == nil:
			return runActive(active)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		var id int64
		// While it is IN_PROGRESS no other run can be.
		if err := t.row("admit_stand_in", i.PipelineID, i.Key, i.Date, i.Actor.Name, i.Actor.Kind).Scan(&id); err != nil {
			return err
		}
		locked, err := t.lockRun(id)
		if err != nil {
			return err
		}
		if err := t.close(id, locked, i.Status, operatorIf(i.Status), i.Actor); err != nil {
			return err
		}
		if err := t.intervene(i.PipelineID, id, 0, ActionNewRun, "", i.Status, nil, "", i.Reason, i.Actor); err != nil {
			return err
		}
		run, err = scanRun(t.row("run_by_id", id))
		return err
	})
	if s.b.Classify(err) == Unique {
		return nil, s.inTheWay(ctx, i.PipelineID)
	}
	return run, err
}

// CancelRun ends an unfinished run and its PENDING tasks as CANCELLED. Tasks that are running stay IN_PROGRESS until
// whoever runs them has ended them; no other attempt of the run can start. It fails with RUN_ENDED.
func (s *Store) CancelRun(ctx context.Context, runID int64, reason string, by Actor) error {
	return s.write(ctx, "cancel the run", func(t *tx) error {
		run, err := t.lockRun(runID)
		if err != nil {
			return err
		}
		if run.status != Queued && run.status != InProgress {
			return runEnded(runID, run.status)
		}
		if _, err := t.exec("cancel_pending_tasks", runID); err != nil {
			return err
		}
		if err := t.close(runID, run, Cancelled, "", by); err != nil {
			return err
		}
		return t.intervene(run.pipelineID, runID, 0, ActionCancel, run.status, Cancelled, nil, "", reason, by)
	})
}

// Pause is an open pause of a pipeline.
type Pause struct {
	At     time.Time
	By     string
	Reason string
}

// PausePipeline begins a pause. It fails with PAUSED when there is one.
func (s *Store) PausePipeline(ctx context.Context, pipelineID int64, reason string, by Actor) error {
	err := s.write(ctx, "pause the pipeline", func(t *tx) error {
		_, err := t.exec("open_pause", pipelineID, by.Name, by.Kind, reason)
		return err
	})
	if s.b.Classify(err) != Unique {
		return err
	}
	p, err := s.PauseOf(ctx, pipelineID)
	if err != nil {
		return err
	}
	if p == nil {
		return fault.New(fault.Paused, "the pipeline was paused a moment ago").WithHint("the same command again")
	}
	return fault.New(fault.Paused, "the pipeline is paused already, by %s: %s", p.By, p.Reason)
}

// ResumePipeline ends the pause of a pipeline; false when there is none.
func (s *Store) ResumePipeline(ctx context.Context, pipelineID int64, reason string, by Actor) (bool, error) {
	ended := false
	err := s.write(ctx, "resume the pipeline", func(t *tx) error {
		n, err := t.exec("close_pause", pipelineID, by.Name, by.Kind, orNull(reason))
		ended = n > 0
		return err
	})
	return ended, err
}

// PauseOf reads the open pause of a pipeline, nil when there is none.
func (s *Store) PauseOf(ctx context.Context, pipelineID int64) (*Pause, error) {
	var p Pause
	err := s.b.Reader.QueryRowContext(ctx, s.query("pause_of"), pipelineID).Scan(instant(&p.At), &p.By, &p.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, "read the pause", err)
	}
	return &p, nil
}

// LiveAttempt is an attempt that has not ended, and where it belongs.
type LiveAttempt struct {
	ID, TaskRunID  int64
	Number         int
	OwnerID        string
	LeaseExpired   bool
	RunID          int64
	RunStatus      string
	Pipeline, Task string
}

// LiveAttempts reads the attempts that have not ended, of one pipeline or, with 0, of all.
func (s *Store) LiveAttempts(ctx context.Context, pipelineID int64) ([]LiveAttempt, error) {
	var live []LiveAttempt
	err := s.read(ctx, "read the running attempts", func(t *tx) error {
		return t.each("live_attempts", func(rows *sql.Rows) error {
			var a LiveAttempt
			err := rows.Scan(&a.ID, &a.TaskRunID, &a.Number, &a.OwnerID, yes(&a.LeaseExpired), &a.RunID, &a.RunStatus, &a.Pipeline, &a.Task)
			live = append(live, a)
			return err
		}, pipelineID)
	})
	return live, err
}

// OwnedRuns reads the runs that a process has taken, of one pipeline or, with 0, of all.
func (s *Store) OwnedRuns(ctx context.Context, pipelineID int64) ([]Run, error) {
	var owned []Run
	err := s.read(ctx, "read the runs that have owners", func(t *tx) error {
		return t.each("owned_runs", func(rows *sql.Rows) error {
			run, err := scanRun(rows)
			owned = append(owned, *run)
			return err
		}, pipelineID)
	})
	return owned, err
}
