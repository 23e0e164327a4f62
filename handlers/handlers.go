// Package handlers runs tasks of one kind each. A handler knows its parameters, checks them without a warehouse, plans
// what an attempt would do and does it; runs, states and audit rows are the engine's.
package handlers

import (
	"context"
	"log/slog"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Handler is one kind of task. Implementations are stateless.
type Handler interface {
	// Name is the value of CFG_TASKS.HANDLER.
	Name() string
	// Params declares every parameter the handler reads.
	Params() []Param
	// Check finds everything wrong with a task that can be seen without a warehouse.
	Check(env *Env, task *Task) []fault.Problem
	// Plan says what an attempt would do now, without doing it.
	Plan(ctx context.Context, env *Env, task *Task, dry *Dry) (*warehouses.Plan, error)
	// Run does one attempt.
	Run(ctx context.Context, env *Env, attempt *Attempt) (Result, error)
	// ReportsRows tells whether HAS_DATA may depend on the task.
	ReportsRows(task *Task) bool
}

// Env is what the process offers to every task.
type Env struct {
	ProjectDir    string
	Dialect       *warehouses.Dialect  // of the configured warehouse
	Warehouse     warehouses.Warehouse // nil where no connection is allowed (validate, plan --offline)
	CountTarget   bool                 // orchestration.target_count: exact
	CreateSchemas bool                 // warehouse.create_schemas
	TableFormat   string               // warehouse.table_format
	Database      string               // default database of two-part target names, "" until connected
	LockWait      time.Duration        // orchestration.lock_wait_seconds
	// TargetRecord reads what the Engine DB knows of a target.
	TargetRecord func(ctx context.Context, target store.TargetName) (store.TargetRecord, error)
}

// Task is one task with what a handler may know of its surroundings.
type Task struct {
	store.Task
	Pipeline store.Pipeline
	Siblings []store.Task // every active task of the pipeline, this one included
}

// Attempt is one execution of a task. The engine fills it in; its functions reach back into the engine.
type Attempt struct {
	Task
	PipelineRunID int64
	TaskRunID     int64
	AttemptID     int64
	Number        int
	RunDate       time.Time       // midnight UTC of the run's date
	Instant       time.Time       // audit instant, UTC, microseconds
	Token         string          // hex, in the names of this attempt's scratch tables
	Earlier       []store.Attempt // earlier attempts of this task run, the first first
	// Statuses reads the states of the run's tasks now, by their codes.
	Statuses func(ctx context.Context) (map[string]string, error)

	Log *slog.Logger
	// Hold takes a lock that the engine keeps until the attempt's outcome is recorded.
	Hold func(ctx context.Context, key locks.Key, holder locks.Holder) error
	// Settle records whether an earlier attempt had committed.
	Settle func(ctx context.Context, earlier store.Attempt, committed bool) error
	// Advance makes phase, planned counts and target record durable, after it made sure that every lock is still held
	// and that the attempt is still this process's. Nothing that the phase announces may happen when it fails.
	Advance func(ctx context.Context, p store.Progress) error
	// SavePlan keeps the rendered plan beside the attempt's log; sha256 of SELECT and plan go to the attempt's row.
	SavePlan func(plan *warehouses.Plan, selectSHA256 string) error
	// Report shows progress on long work: what is being done now.
	Report func(step string)
}

// Result is what a successful attempt did.
type Result struct {
	Counts     store.Counts // of this attempt
	TaskCounts store.Counts // with those of earlier attempts that had committed before they were lost
	// ForgetTarget asks to clear the target's hash record with the outcome, because the target was dropped or replaced.
	ForgetTarget *store.TargetName
}
