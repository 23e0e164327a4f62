package handlers

import (
	"context"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/warehouses"
)

// Dry is what the tasks of one pipeline are planned in, one after the other.
type Dry struct {
	// Session is in a transaction that will be rolled back. In it, tables look as earlier tasks would leave them, but for
	// their rows.
	Session warehouses.Session
	RunDate time.Time // stands for the date of the run that there is not yet

	made map[string]bool
	open map[string]string
}

// NewDry plans in a session whose transaction has begun.
func NewDry(session warehouses.Session, runDate time.Time) *Dry {
	return &Dry{Session: session, RunDate: runDate, made: map[string]bool{}, open: map[string]string{}}
}

// Make records that a table has its shape only in the session.
func (d *Dry) Make(table warehouses.QualifiedName) { d.made[table.Key()] = true }

// Made reports whether a table has its shape only in the session.
func (d *Dry) Made(table warehouses.QualifiedName) bool { return d.made[table.Key()] }

// LeaveOpen records that, because of a task, it is not known how a table will look for the tasks after it.
func (d *Dry) LeaveOpen(table, task string) {
	if key := strings.ToLower(table); d.open[key] == "" {
		d.open[key] = task
	}
}

// OpenBy names the task that leaves it open how a table will look, "" when it looks as in the session. Parts of the name
// that are empty match any.
func (d *Dry) OpenBy(table warehouses.QualifiedName) string {
	suffix := strings.TrimLeft("."+table.Key(), ".")
	for key, task := range d.open {
		if key == suffix || strings.HasSuffix(key, "."+suffix) {
			return task
		}
	}
	return ""
}

// Again begins the transaction anew, which a failed statement may have spoilt. What was made has to be made again.
func (d *Dry) Again(ctx context.Context) error {
	if err := d.Session.Rollback(); err != nil {
		return err
	}
	clear(d.made)
	return d.Session.Begin(ctx)
}
