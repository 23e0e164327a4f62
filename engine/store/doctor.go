package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// UnfinishedRun is a run that has not ended.
type UnfinishedRun struct {
	Pipeline string
	ID       int64
	Started  time.Time
}

// UnfinishedSince reads the unfinished runs that started longer ago than age.
func (s *Store) UnfinishedSince(ctx context.Context, age time.Duration) ([]UnfinishedRun, error) {
	var runs []UnfinishedRun
	err := s.read(ctx, "read the unfinished runs", func(t *tx) error {
		return t.each("unfinished_since", func(rows *sql.Rows) error {
			var r UnfinishedRun
			err := rows.Scan(&r.Pipeline, &r.ID, instant(&r.Started))
			runs = append(runs, r)
			return err
		}, -age.Seconds())
	})
	return runs, err
}

// Undelivered is what a webhook was not told.
type Undelivered struct {
	Webhook string
	Status  string // PENDING or FAILED
	Count   int64
	Oldest  time.Time
}

// Undelivered counts the notifications that have been PENDING for longer than pending, and those that FAILED and are
// younger than failed.
func (s *Store) Undelivered(ctx context.Context, pending, failed time.Duration) ([]Undelivered, error) {
	var all []Undelivered
	err := s.read(ctx, "read what was not delivered", func(t *tx) error {
		return t.each("undelivered", func(rows *sql.Rows) error {
			var u Undelivered
			err := rows.Scan(&u.Webhook, &u.Status, &u.Count, instant(&u.Oldest))
			all = append(all, u)
			return err
		}, -pending.Seconds(), -failed.Seconds())
	})
	return all, err
}

// StaleWait is a wait for an upstream that nobody looks after.
type StaleWait struct {
	GateWait // without Since and Until
	Pipeline string
	RanOut   bool // its time is up too
}

// StaleWaits reads the waits that should have been looked after more than a Lease ago.
func (s *Store) StaleWaits(ctx context.Context) ([]StaleWait, error) {
	var waits []StaleWait
	err := s.read(ctx, "read the waits", func(t *tx) error {
		return t.each("stale_waits", func(rows *sql.Rows) error {
			var w StaleWait
			err := rows.Scan(&w.Pipeline, &w.PipelineID, &w.RunID, &w.TaskID, instant(&w.NextCheck), yes(&w.RanOut))
			waits = append(waits, w)
			return err
		}, -Lease.Seconds())
	})
	return waits, err
}

// ForgetWait ends a wait that ran out while nobody looked; any other it leaves alone and says false.
func (s *Store) ForgetWait(ctx context.Context, w GateWait) (bool, error) {
	forgotten := false
	err := s.write(ctx, "forget the wait", func(t *tx) error {
		n, err := t.exec("forget_gate_wait", w.PipelineID, w.RunID, w.TaskID, -Lease.Seconds())
		forgotten = n > 0
		return err
	})
	return forgotten, err
}

// ScratchOwner is the task run that a scratch table is named after.
type ScratchOwner struct {
	Target string // database.schema.table; "" when no attempt has started
	Status string
	Live   int // number of the attempt that has not ended, 0 without one
}

// ScratchOwner reads a task run, nil when there is none with the id.
func (s *Store) ScratchOwner(ctx context.Context, taskRunID int64) (*ScratchOwner, error) {
	var o ScratchOwner
	err := s.b.Reader.QueryRowContext(ctx, s.query("scratch_owner"), taskRunID).Scan(text(&o.Target), &o.Status, &o.Live)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, "read the task run", err)
	}
	return &o, nil
}

// Extent is how much an Engine DB holds.
type Extent struct {
	Bytes    int64
	Oldest   *time.Time // start of the oldest run; nil without runs
	Attempts int64      // at most so many
}

// Extent reads how much there is, without counting.
func (s *Store) Extent(ctx context.Context) (Extent, error) {
	var e Extent
	err := s.read(ctx, "read how much there is", func(t *tx) error {
		if err := t.row("size").Scan(&e.Bytes); err != nil {
			return err
		}
		return t.row("extent").Scan(instantOrNil(&e.Oldest), &e.Attempts)
	})
	return e, err
}

// QuickCheck lets a database that is a file look at itself: "" when it is sound, or has nothing of the kind.
func (s *Store) QuickCheck(ctx context.Context) (string, error) {
	if s.b.Dialect != SQLite {
		return "", nil
	}
	var found string
	err := s.read(ctx, "check the file", func(t *tx) error { return t.row("quick_check").Scan(&found) })
	if found == "ok" {
		found = ""
	}
	return found, err
}

// Rights are what the user of the connection may do.
type Rights struct {
	User    string
	Missing []string // "INSERT on AUD_ACTIONS": what commands need that work on runs
	Purge   bool     // purge may delete
	Migrate bool     // tables can be made in the schema
}

// Rights asks what the user may do; nil where the file's permissions are all there is.
func (s *Store) Rights(ctx context.Context) (*Rights, error) {
	if s.b.Dialect != Postgres {
		return nil, nil
	}
	r := &Rights{}
	err := s.read(ctx, "read the privileges", func(t *tx) (err error) {
		var database string
		if err := t.row("who_am_i").Scan(&r.User, &database, &r.Migrate); err != nil {
			return err
		}
		if r.Missing, err = t.missing(needed(runs)); err != nil {
			return err
		}
		purge, err := t.missing(needed(purges))
		r.Purge = len(purge) == 0
		return err
	})
	return r, err
}

func (t *tx) missing(grants []tableGrant) ([]string, error) {
	type wanted struct {
		Table     string `json:"table"`
		Privilege string `json:"privilege"`
	}
	var all []wanted
	for _, g := range grants {
		for _, p := range g.privileges {
			all = append(all, wanted{g.table, p})
		}
	}
	list, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	var missing []string
	err = t.each("missing_privileges", func(rows *sql.Rows) error {
		var table, privilege string
		err := rows.Scan(&table, &privilege)
		missing = append(missing, privilege+" on "+strings.ToUpper(table))
		return err
	}, string(list))
	return missing, err
}
