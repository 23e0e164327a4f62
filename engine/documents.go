package engine

import (
	"encoding/json"
	"math"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Time is an instant in documents: ISO 8601, UTC, microseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000Z"

func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes the instant as a string.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// RunDocument is etl-craft/run/1, the answer of run and status.
type RunDocument struct {
	Schema        string         `json:"schema"`
	Pipeline      string         `json:"pipeline"`
	PipelineID    int64          `json:"pipeline_id"`
	PipelineRunID int64          `json:"pipeline_run_id"`
	RunKey        string         `json:"run_key"`
	RunDate       string         `json:"run_date"` // YYYY-MM-DD
	Trigger       string         `json:"trigger"`
	Status        string         `json:"status"`
	SkipReason    *string        `json:"skip_reason"`
	StartedAt     Time           `json:"started_at"`
	EndedAt       *Time          `json:"ended_at"`
	PreviousRunID *int64         `json:"previous_run_id"`     // the run of an earlier date that was finished first
	PausedBy      *string        `json:"paused_by,omitempty"` // of status, when the pipeline is paused
	PauseReason   *string        `json:"pause_reason,omitempty"`
	Tasks         []TaskDocument `json:"tasks"` // in order of their ids
}

// TaskDocument is one task of a RunDocument.
type TaskDocument struct {
	Task            string         `json:"task"`
	TaskID          int64          `json:"task_id"`
	TaskRunID       int64          `json:"task_run_id"`
	Handler         string         `json:"handler"`
	Action          *string        `json:"action"`
	Target          *string        `json:"target"` // database.schema.table
	Status          string         `json:"status"`
	SkipReason      *string        `json:"skip_reason"`
	Attempts        int            `json:"attempts"`
	SourceCount     *int64         `json:"source_count"`
	TargetCount     *int64         `json:"target_count"`
	InsertCount     *int64         `json:"insert_count"`
	UpdateCount     *int64         `json:"update_count"`
	DeleteCount     *int64         `json:"delete_count"`
	RowsWritten     *int64         `json:"rows_written"`
	Error           *ErrorDocument `json:"error"`
	NotBefore       *Time          `json:"not_before,omitempty"` // when a failed task is tried again
	WaitsFor        *string        `json:"waits_for,omitempty"`  // of status: what it waits for in another pipeline that is running
	WaitsUntil      *Time          `json:"waits_until,omitempty"`
	StartedAt       *Time          `json:"started_at"`
	EndedAt         *Time          `json:"ended_at"`
	DurationSeconds *float64       `json:"duration_seconds"`
}

// ErrorDocument says why a task failed.
type ErrorDocument struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Step    *string `json:"step"`
	Hint    *string `json:"hint"`
}

// HistoryDocument is etl-craft/history/1.
type HistoryDocument struct {
	Schema   string       `json:"schema"`
	Pipeline string       `json:"pipeline"`
	Runs     []HistoryRun `json:"runs"` // the newest first
	// Interventions are what operators did to these runs, the oldest first.
	Interventions []HistoryIntervention `json:"interventions"`
}

// HistoryIntervention is what an operator did to a run, or to a task of it.
type HistoryIntervention struct {
	At            Time    `json:"at"`
	PipelineRunID int64   `json:"pipeline_run_id"`
	Task          *string `json:"task"`
	Action        string  `json:"action"`
	FromStatus    *string `json:"from_status"`
	ToStatus      *string `json:"to_status"`
	Rows          *int64  `json:"rows"`
	By            string  `json:"by"`
	Reason        string  `json:"reason"`
}

// HistoryRun is one run of a HistoryDocument.
type HistoryRun struct {
	PipelineRunID   int64    `json:"pipeline_run_id"`
	RunKey          string   `json:"run_key"`
	RunDate         string   `json:"run_date"`
	Trigger         string   `json:"trigger"`
	Status          string   `json:"status"`
	SkipReason      *string  `json:"skip_reason"`
	StartedAt       Time     `json:"started_at"`
	EndedAt         *Time    `json:"ended_at"`
	DurationSeconds *float64 `json:"duration_seconds"`
	SLAStatus       *string  `json:"sla_status"`
	StartedBy       string   `json:"started_by"`
}

// ListDocument is etl-craft/list/1.
type ListDocument struct {
	Schema    string         `json:"schema"`
	Pipelines []ListPipeline `json:"pipelines"` // in order of their codes
}

// ListPipeline is one pipeline of a ListDocument.
type ListPipeline struct {
	Pipeline    string      `json:"pipeline"`
	Name        string      `json:"name"`
	RefreshType string      `json:"refresh_type"`
	Schedule    *string     `json:"schedule"`
	Timezone    *string     `json:"timezone"`
	SLAHours    *float64    `json:"sla_hours"`
	PausedBy    *string     `json:"paused_by"`
	PauseReason *string     `json:"pause_reason"`
	Origin      *string     `json:"origin"`
	LastRun     *HistoryRun `json:"last_run"`
}

// GraphDocument is etl-craft/graph/1.
type GraphDocument struct {
	Schema    string      `json:"schema"`
	Pipeline  string      `json:"pipeline"`
	DependsOn []GraphEdge `json:"depends_on"` // pipelines
	Tasks     []GraphTask `json:"tasks"`      // each after those it waits for
}

// GraphTask is one task of a GraphDocument. Wave is 1 for tasks that wait for nothing in the pipeline, else one more
// than the highest wave waited for.
type GraphTask struct {
	Task         string      `json:"task"`
	Handler      string      `json:"handler"`
	Action       *string     `json:"action"`
	Target       *string     `json:"target"`
	Wave         int         `json:"wave"`
	RunCondition string      `json:"run_condition"` // ALL, ANY or a number
	DependsOn    []GraphEdge `json:"depends_on"`
}

// GraphEdge is one thing that is waited for; Task is null for a pipeline.
type GraphEdge struct {
	Pipeline string  `json:"pipeline"`
	Task     *string `json:"task"`
	On       string  `json:"on"`
	Match    string  `json:"match"` // newest or same_date
}

// ValidateDocument is etl-craft/validate/1.
type ValidateDocument struct {
	Schema   string          `json:"schema"`
	Problems []fault.Problem `json:"problems"`
	Failures int             `json:"failures"`
	Warnings int             `json:"warnings"`
}

// PlanDocument is etl-craft/plan/1.
type PlanDocument struct {
	Schema   string     `json:"schema"`
	Pipeline string     `json:"pipeline"`
	Tasks    []PlanTask `json:"tasks"` // each after those it waits for
}

// PlanTask is one task of a PlanDocument.
type PlanTask struct {
	Task      string                `json:"task"`
	Handler   string                `json:"handler"`
	Action    *string               `json:"action"`
	Target    *string               `json:"target"`
	Complete  bool                  `json:"complete"`
	BlockedBy *string               `json:"blocked_by"`
	Error     *ErrorDocument        `json:"error"` // why the task would be refused
	Notes     []string              `json:"notes"`
	Steps     []warehouses.JSONStep `json:"steps"`

	Plan *warehouses.Plan `json:"-"` // for text output; nil when nothing could be planned
}

// ApplyDocument is etl-craft/apply/1.
type ApplyDocument struct {
	Schema  string        `json:"schema"`
	DryRun  bool          `json:"dry_run"`
	Changes []ApplyChange `json:"changes"`
}

// ApplyChange is one row that was, or would be, inserted, updated, retired or restored.
type ApplyChange struct {
	Operation string         `json:"operation"`
	Object    string         `json:"object"`
	Key       string         `json:"key"`
	Columns   []ColumnChange `json:"columns"`
}

// ColumnChange is one column's text before and after; null is NULL.
type ColumnChange struct {
	Column string  `json:"column"`
	Old    *string `json:"old"`
	New    *string `json:"new"`
}

// ExportDocument is etl-craft/export/1.
type ExportDocument struct {
	Schema string   `json:"schema"`
	Files  []string `json:"files"`
}

// LocksDocument is etl-craft/locks/1.
type LocksDocument struct {
	Schema string         `json:"schema"`
	Locks  []LockDocument `json:"locks"` // the oldest first
}

// LockDocument is who holds a lock.
type LockDocument struct {
	Host          string  `json:"host"`
	PID           int     `json:"pid"`
	What          string  `json:"what"` // "target dw.sales.orders"
	Pipeline      string  `json:"pipeline"`
	Task          *string `json:"task"` // null, as the ids, for the lock of a backfill
	PipelineRunID *int64  `json:"pipeline_run_id"`
	TaskRunID     *int64  `json:"task_run_id"`
	Since         Time    `json:"since"`
}

func lockDocument(h locks.Holder) LockDocument {
	return LockDocument{
		Host: h.Host, PID: h.PID, What: h.What, Pipeline: h.Pipeline, Task: orNil(h.Task),
		PipelineRunID: orNil(h.PipelineRunID), TaskRunID: orNil(h.TaskRunID), Since: Time{h.Since},
	}
}

func runDocument(run *store.Run, tasks []store.TaskRun) *RunDocument {
	d := &RunDocument{
		Schema: "etl-craft/run/1", Pipeline: run.PipelineCode, PipelineID: run.PipelineID, PipelineRunID: run.ID,
		RunKey: run.Key, RunDate: run.Date, Trigger: run.Trigger, Status: run.Status, SkipReason: orNil(run.SkipReason),
		StartedAt: Time{run.StartedAt}, EndedAt: timeOrNil(run.EndedAt), Tasks: make([]TaskDocument, len(tasks)),
	}
	for i := range tasks {
		d.Tasks[i] = taskDocument(&tasks[i])
	}
	return d
}

func taskDocument(t *store.TaskRun) TaskDocument {
	d := TaskDocument{
		Task: t.TaskCode, TaskID: t.TaskID, TaskRunID: t.ID, Handler: t.Handler, Action: orNil(t.Action), Target: orNil(t.TargetName),
		Status: t.Status, SkipReason: orNil(t.SkipReason), Attempts: t.Attempts,
		SourceCount: t.Counts.Source, TargetCount: t.Counts.Target, InsertCount: t.Counts.Insert,
		UpdateCount: t.Counts.Update, DeleteCount: t.Counts.Delete, RowsWritten: t.Counts.Written,
		NotBefore: timeOrNil(t.NotBefore),
		StartedAt: timeOrNil(t.StartedAt), EndedAt: timeOrNil(t.EndedAt), DurationSeconds: duration(t.StartedAt, t.EndedAt),
	}
	if t.ErrorCode != "" {
		d.Error = &ErrorDocument{Code: t.ErrorCode, Message: t.Error, Step: orNil(t.ErrorStep), Hint: orNil(t.ErrorHint)}
	}
	return d
}

func historyRun(r *store.Run) HistoryRun {
	return HistoryRun{
		PipelineRunID: r.ID, RunKey: r.Key, RunDate: r.Date, Trigger: r.Trigger, Status: r.Status, SkipReason: orNil(r.SkipReason),
		StartedAt: Time{r.StartedAt}, EndedAt: timeOrNil(r.EndedAt), DurationSeconds: duration(&r.StartedAt, r.EndedAt),
		SLAStatus: orNil(r.SLAStatus), StartedBy: r.StartedBy.Name,
	}
}

func historyIntervention(i *store.Intervention) HistoryIntervention {
	return HistoryIntervention{At: Time{i.At}, PipelineRunID: i.RunID, Task: orNil(i.Task), Action: i.Action,
		FromStatus: orNil(i.From), ToStatus: orNil(i.To), Rows: i.Rows, By: i.Actor.Name, Reason: i.Reason}
}

func orNil[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

func timeOrNil(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return &Time{*t}
}

// duration is in seconds, to the millisecond; nil until both ends are known.
func duration(from, to *time.Time) *float64 {
	if from == nil || to == nil {
		return nil
	}
	seconds := math.Round(to.Sub(*from).Seconds()*1000) / 1000
	return &seconds
}
