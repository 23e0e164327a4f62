package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// ReconcileDocument is etl-craft/reconcile/1.
type ReconcileDocument struct {
	Schema   string        `json:"schema"`
	Lost     []LostAttempt `json:"lost"`
	Released []ReleasedRun `json:"released"`
	Breached []int64       `json:"sla_breached"` // ids of unfinished runs whose SLA has passed unnoticed until now
	Living   []LostAttempt `json:"living"`       // attempts that are left alone, because their processes live
}

// LostAttempt is an attempt of a ReconcileDocument.
type LostAttempt struct {
	Pipeline      string `json:"pipeline"`
	PipelineRunID int64  `json:"pipeline_run_id"`
	Task          string `json:"task"`
	TaskRunID     int64  `json:"task_run_id"`
	Attempt       int    `json:"attempt"`
	Owner         string `json:"owner"`
	TaskStatus    string `json:"task_status"` // afterwards
}

// breachAll records which runs that nobody may be working on have taken longer than their SLA.
func (e *Engine) breachAll(ctx context.Context, pipelineID int64, doc *ReconcileDocument) error {
	open, err := e.Store.RunsWithOpenSLA(ctx, pipelineID)
	if err != nil {
		return err
	}
	for _, id := range open {
		breached, err := e.Store.BreachSLA(ctx, id)
		if err != nil {
			return err
		}
		if breached {
			doc.Breached = append(doc.Breached, id)
		}
	}
	return nil
}

// ReleasedRun is a run that a dead process owned.
type ReleasedRun struct {
	Pipeline      string `json:"pipeline"`
	PipelineRunID int64  `json:"pipeline_run_id"`
	Owner         string `json:"owner"`
}

// Reconcile ends the attempts whose processes are gone as LOST, releases their runs and records SLAs that have passed, of
// one pipeline or, with "", of all. Everything else it leaves alone.
func (e *Engine) Reconcile(ctx context.Context, pipeline string) (*ReconcileDocument, error) {
	pipelineID, err := e.pipelineID(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	arguments, err := json.Marshal(OperatorRequest{Pipeline: pipeline})
	if err != nil {
		return nil, err
	}
	doc := &ReconcileDocument{Schema: "etl-craft/reconcile/1", Lost: []LostAttempt{}, Released: []ReleasedRun{}, Breached: []int64{}, Living: []LostAttempt{}}
	err = e.audited(ctx, store.ActionRecord{Command: "reconcile", Arguments: string(arguments), PipelineID: pipelineID}, func() error {
		if err := e.loseAll(ctx, pipelineID, doc); err != nil {
			return err
		}
		if err := e.releaseAll(ctx, pipelineID, doc); err != nil {
			return err
		}
		if err := e.breachAll(ctx, pipelineID, doc); err != nil {
			return err
		}
		return e.Store.GiveUpNotifications(ctx, giveUpAfter+time.Hour)
	})
	if err != nil {
		return nil, err
	}
	return doc, nil
}

func (e *Engine) loseAll(ctx context.Context, pipelineID int64, doc *ReconcileDocument) error {
	live, err := e.Store.LiveAttempts(ctx, pipelineID)
	if err != nil {
		return err
	}
	proven := map[string]bool{}
	for _, a := range live {
		gone, asked := proven[a.OwnerID]
		if !asked || a.LeaseExpired {
			if gone, err = e.gone(ctx, a.OwnerID, a.LeaseExpired); err != nil {
				return err
			}
			proven[a.OwnerID] = gone
		}
		lost := LostAttempt{Pipeline: a.Pipeline, PipelineRunID: a.RunID, Task: a.Task, TaskRunID: a.TaskRunID, Attempt: a.Number,
			Owner: a.OwnerID, TaskStatus: store.InProgress}
		if !gone {
			doc.Living = append(doc.Living, lost)
			continue
		}
		if lost.TaskStatus, err = e.lose(ctx, a); err != nil {
			return err
		}
		doc.Lost = append(doc.Lost, lost)
	}
	return nil
}

// lose ends an attempt whose process is gone, with all others of that process in the run, and returns what its task is
// afterwards. Where an orchestrator decides about the next try there is none.
func (e *Engine) lose(ctx context.Context, a store.LiveAttempt) (string, error) {
	if e.remote() {
		err := e.failLost(ctx, &store.Attempt{ID: a.ID, OwnerID: a.OwnerID})
		if fault.Has(err, fault.StaleAttempt) {
			err = nil // it has ended after all
		}
		return store.Failed, err
	}
	_, err := e.Store.LoseAttempts(ctx, a.RunID, a.OwnerID)
	if a.RunStatus == store.Cancelled {
		return store.Cancelled, err
	}
	return store.Pending, err
}

func (e *Engine) releaseAll(ctx context.Context, pipelineID int64, doc *ReconcileDocument) error {
	owned, err := e.Store.OwnedRuns(ctx, pipelineID)
	if err != nil {
		return err
	}
	for _, run := range owned {
		gone, err := e.gone(ctx, run.OwnerID, run.LeaseExpired)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		switch err := e.Store.ReleaseRun(ctx, run.ID, run.OwnerID); {
		case fault.Has(err, fault.RunEnded) || fault.Has(err, fault.RunOwned): // somebody was faster
		case err != nil:
			return err
		default:
			doc.Released = append(doc.Released, ReleasedRun{Pipeline: run.PipelineCode, PipelineRunID: run.ID, Owner: run.OwnerID})
		}
	}
	return nil
}
