package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Results of a gate.
const (
	GateSatisfied   = "SATISFIED"
	GateUnsatisfied = "UNSATISFIED"
	GateBypassed    = "BYPASSED" // not asked, or not listened to
)

// Gate is a dependency on another pipeline, or on a task of one.
type Gate struct {
	PipelineEdgeID, TaskEdgeID int64 // one of them is 0
	UpstreamPipelineID         int64
	UpstreamTaskID             int64 // of a dependency of a task
	Type                       string
	Date                       string // only runs of this date count; "" for any
	ConsumeRepairs             bool
}

// Upstream is what a gate sees.
type Upstream struct {
	// Busy is the upstream's newest unfinished run, 0 when there is none; BusyStatus its status.
	Busy       int64
	BusyStatus string
	// RunID is the newest ended run that satisfies the dependency and was not used up, 0 when there is none; TaskRunID and
	// Revision belong to it.
	RunID, TaskRunID int64
	Revision         int
	// Used is the newest run that was used up; it is looked for where RunID is 0 and any date will do, and 0 when there is none.
	Used int64
}

// GateDecision is what was decided about one dependency when a run or a task wanted to start.
type GateDecision struct {
	PipelineEdgeID, TaskEdgeID int64 // one of them is 0
	RunID, TaskRunID           int64 // chosen upstream, 0 for none
	Revision                   int
	Result                     string
	Reason                     string
}

// LookUpstream looks at a gate. Runs of a backfill do not count.
func (s *Store) LookUpstream(ctx context.Context, g Gate) (Upstream, error) {
	var u Upstream
	err := s.read(ctx, "look at the upstream", func(t *tx) error {
		err := t.row("gate_busy", g.UpstreamPipelineID).Scan(&u.Busy, &u.BusyStatus)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		query, args := "pipeline_gate", []any{g.UpstreamPipelineID, g.Date, g.Type, g.PipelineEdgeID, flag(g.ConsumeRepairs)}
		if g.TaskEdgeID != 0 {
			query, args = "task_gate", []any{g.UpstreamPipelineID, g.Date, g.Type, g.TaskEdgeID, flag(g.ConsumeRepairs), g.UpstreamTaskID}
		}
		err = t.row(query, args...).Scan(&u.RunID, &u.TaskRunID, &u.Revision)
		if errors.Is(err, sql.ErrNoRows) && g.Date != "" {
			return nil
		}
		if errors.Is(err, sql.ErrNoRows) {
			return t.row("gate_used", g.PipelineEdgeID, g.TaskEdgeID).Scan(&u.Used)
		}
		return err
	})
	return u, err
}

// RecordGates keeps decisions that belong to no run, because the gate refused it, or to a task of a run.
func (s *Store) RecordGates(ctx context.Context, actor Actor, pipelineID, runID, taskRunID int64, decisions []GateDecision) error {
	if len(decisions) == 0 {
		return nil
	}
	return s.write(ctx, "record the gates", func(t *tx) error {
		return t.recordGates(actor, pipelineID, runID, taskRunID, decisions)
	})
}

// recordGates also keeps it as an intervention when a run's gate was not listened to.
func (t *tx) recordGates(actor Actor, pipelineID, runID, taskRunID int64, decisions []GateDecision) error {
	for _, d := range decisions {
		_, err := t.exec("add_gate_decision", pipelineID, orNull(runID), orNull(taskRunID), orNull(d.PipelineEdgeID), orNull(d.TaskEdgeID),
			orNull(d.RunID), orNull(d.TaskRunID), orNull(d.Revision), d.Result, orNull(d.Reason))
		if err != nil {
			return err
		}
		if d.Result != GateBypassed || runID == 0 {
			continue
		}
		if _, err := t.exec("add_intervention", pipelineID, runID, "GATE_BYPASS", nil, nil, d.Reason, actor.Name, actor.Kind); err != nil {
			return err
		}
	}
	return nil
}

// GateDecisions reads what was decided about a run, or about a task of it; taskRunID is 0 for the run.
func (s *Store) GateDecisions(ctx context.Context, runID, taskRunID int64) ([]GateDecision, error) {
	var decisions []GateDecision
	err := s.read(ctx, "read the gates", func(t *tx) error {
		return t.each("gate_decisions", func(rows *sql.Rows) error {
			var d GateDecision
			err := rows.Scan(&d.PipelineEdgeID, &d.TaskEdgeID, &d.RunID, &d.TaskRunID, &d.Revision, &d.Result, text(&d.Reason))
			decisions = append(decisions, d)
			return err
		}, runID, taskRunID)
	})
	return decisions, err
}

// LastRefusal is when the gate of a pipeline refused a run the last time, nil when it never did.
func (s *Store) LastRefusal(ctx context.Context, pipelineID int64) (*time.Time, error) {
	var at time.Time
	err := s.read(ctx, "read the last refusal", func(t *tx) error {
		return t.row("last_refusal", pipelineID).Scan(instant(&at))
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &at, err
}

// GateWait is a wait for an upstream that is running. RunID and TaskID are 0 for a run that there is not yet.
type GateWait struct {
	PipelineID, RunID, TaskID int64
	Since                     time.Time
	NextCheck                 time.Time
	Until                     time.Time
}

// WaitForGate starts a wait of at most atMost, or continues the one that there is, also one that another process has left,
// and says how much of it is left. nextLook is when the gate will be looked at again. A wait that ran out while nobody
// looked begins anew. It fails with RUN_ENDED.
func (s *Store) WaitForGate(ctx context.Context, w GateWait, nextLook, atMost time.Duration) (left time.Duration, err error) {
	left, err = s.waitForGate(ctx, w, nextLook, atMost)
	if s.b.Classify(err) == Unique { // another process has begun the same wait in this moment
		return s.waitForGate(ctx, w, nextLook, atMost)
	}
	return left, err
}

func (s *Store) waitForGate(ctx context.Context, w GateWait, nextLook, atMost time.Duration) (left time.Duration, err error) {
	err = s.write(ctx, "wait for the gate", func(t *tx) error {
		if w.RunID != 0 {
			if err := t.lockUnfinished(w.RunID); err != nil {
				return err
			}
		}
		if _, err := t.exec("forget_gate_wait", w.PipelineID, w.RunID, w.TaskID, -Lease.Seconds()); err != nil {
			return err
		}
		var until, now time.Time
		err := t.row("keep_gate_wait", w.PipelineID, w.RunID, w.TaskID, nextLook.Seconds()).Scan(instant(&until), instant(&now))
		if errors.Is(err, sql.ErrNoRows) {
			err = t.row("start_gate_wait", w.PipelineID, orNull(w.RunID), orNull(w.TaskID), nextLook.Seconds(), atMost.Seconds()).Scan(instant(&until), instant(&now))
		}
		left = until.Sub(now)
		return err
	})
	return left, err
}

// EndGateWait ends a wait, if there is one.
func (s *Store) EndGateWait(ctx context.Context, w GateWait) error {
	return s.write(ctx, "end the wait for the gate", func(t *tx) error {
		_, err := t.exec("end_gate_wait", w.PipelineID, w.RunID, w.TaskID)
		return err
	})
}

// GateWaits reads the waits of a pipeline and its tasks that are under way.
func (s *Store) GateWaits(ctx context.Context, pipelineID int64) ([]GateWait, error) {
	var waits []GateWait
	err := s.read(ctx, "read the waits", func(t *tx) error {
		return t.each("gate_waits", func(rows *sql.Rows) error {
			var w GateWait
			err := rows.Scan(&w.PipelineID, &w.RunID, &w.TaskID, instant(&w.Since), instant(&w.NextCheck), instant(&w.Until))
			waits = append(waits, w)
			return err
		}, pipelineID)
	})
	return waits, err
}
