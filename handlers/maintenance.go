package handlers

import (
	"context"
	"log/slog"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Maintainer is a Handler that looks after the tables that its tasks write.
type Maintainer interface {
	Handler
	// Targets groups tasks by the table they write, in the order of the tables' names. Tasks whose target has no good
	// name are left out.
	Targets(env *Env, tasks []*Task) []Target
	// AuditColumns are what a task maintains in the rows of its target, nil when it takes the table as it is.
	AuditColumns(task *Task) []string
	// NeededColumns are the audit columns without which a task refuses its target.
	NeededColumns(task *Task) []string
	// MadeColumns are the audit columns of a target that a task makes. ok is false when it makes none, or nobody can tell.
	MadeColumns(env *Env, task *Task) (columns []string, ok bool)
	// Rehash makes the change hashes of a target those of its merge tasks.
	Rehash(ctx context.Context, env *Env, t Target, m *Maintenance) (*Maintained, error)
	// Upgrade adds the columns to a target that every table of etl-craft has by now.
	Upgrade(ctx context.Context, env *Env, t Target, m *Maintenance) (*Maintained, error)
}

// Target is a table with the active tasks that name it.
type Target struct {
	Name  warehouses.QualifiedName // folded as the warehouse folds; Database is "" when nobody knows it yet
	Tasks []*Task
}

// Maintenance is what the engine gives to the work on one target.
type Maintenance struct {
	DryRun bool // only look and plan
	Log    *slog.Logger
	// Hold takes a lock that the engine keeps until the work is done.
	Hold func(ctx context.Context, key locks.Key, holder locks.Holder) error
	// Check fails when a lock was lost.
	Check func(ctx context.Context) error
	// RecordHash records how the hashes in a target were made, ForgetHash that nobody knows.
	RecordHash func(ctx context.Context, target store.TargetName, version int, compare string) error
	ForgetHash func(ctx context.Context, target store.TargetName) error
}

// Maintained is what was done to a target, or would be done.
type Maintained struct {
	Plan    *warehouses.Plan // nil when the table does not exist
	Rows    int64            // in the target; of Rehash
	Changed int64            // rows that get another hash
	Columns []string         // that are added; of Upgrade
	Compare []string         // that are hashed; of Rehash
	Record  bool             // what the Engine DB knows of the hashes changes
}

// TargetChecker is a Handler that finds problems of a task in the rows of its target.
type TargetChecker interface {
	CheckTarget(ctx context.Context, env *Env, task *Task, s warehouses.Session) ([]fault.Problem, error)
}
