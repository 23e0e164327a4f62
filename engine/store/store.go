// Package store is the Engine DB: what is to be run (CFG_ tables) and what happened (AUD_ tables). Each method of Store
// is one transaction and records one fact. SQLite and PostgreSQL share this code and the statements in queries/; the
// sub-packages sqlite and postgres open them. The tables themselves are made by package migrations.
//
// Errors that a caller can act on are *fault.Error. Times are the Engine DB's, never the host's.
package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
)

// EngineVersion is the highest migration of the ENGINE stream that this code works with.
const EngineVersion = 7

// Dialect names the kind of database.
type Dialect string

// The databases that can hold an Engine DB.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Trouble classifies a driver's error.
type Trouble int

// Kinds of trouble.
const (
	OtherTrouble Trouble = iota
	Unique               // a unique index refused the row
	Rule                 // a check or NOT NULL refused the row
	NoTable              // a table or schema is missing
	Unreachable          // there is no usable connection
)

// Backend is an opened database. Its driver is known only to the package that made it.
type Backend struct {
	Dialect Dialect
	Schema  string // quoted; statements name every table with it
	Where   string // for people: a path, or host, port and database
	Writer  *sql.DB
	Reader  *sql.DB
	// Direct connects past a transaction pooler, for migrations.
	Direct   driver.Connector
	Classify func(error) Trouble
}

// Store is an Engine DB. It is safe for concurrent use.
type Store struct {
	b             Backend
	queries       map[string]string
	profile       string // of the configuration, for webhooks
	subscriptions Subscriptions
}

// New makes a Store of an opened database, without looking at it.
func New(b Backend) *Store {
	return &Store{b: b, queries: queriesOf(b.Dialect, b.Schema)}
}

// Backend is what the Store works on.
func (s *Store) Backend() Backend { return s.b }

// Close closes all connections.
func (s *Store) Close() error {
	if s.b.Reader == s.b.Writer {
		return s.b.Writer.Close()
	}
	return errors.Join(s.b.Reader.Close(), s.b.Writer.Close())
}

// CheckVersion fails with ENGINE_NOT_MIGRATED or ENGINE_NEWER when the tables are not those of EngineVersion.
func (s *Store) CheckVersion(ctx context.Context) error {
	var version int
	err := s.read(ctx, "read the version", func(t *tx) error {
		return t.row("engine_version").Scan(&version)
	})
	if s.b.Classify(err) == NoTable || err == nil && version < EngineVersion {
		return fault.New(fault.EngineNotMigrated, "the Engine DB %s has not all tables of this etl-craft", s.b.Where).
			WithHint("etl-craft migrate")
	}
	if err != nil {
		return err
	}
	if version > EngineVersion {
		return fault.New(fault.EngineNewer, "the Engine DB %s has migration %d, this etl-craft knows %d", s.b.Where, version, EngineVersion).
			WithHint("use the etl-craft that migrated it, or a newer one")
	}
	return nil
}

// Now is the Engine DB's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.read(ctx, "read the clock", func(t *tx) error { return t.row("now").Scan(instant(&now)) })
	return now, err
}

// RaiseIDs makes the next PIPELINE_RUN_ID and TASK_RUN_ID higher than above. It never lowers them.
func (s *Store) RaiseIDs(ctx context.Context, above int64) error {
	return s.write(ctx, "raise the ids", func(t *tx) error {
		if s.b.Dialect == SQLite {
			_, err := t.exec("raise_ids", above)
			return err
		}
		var ignored [2]int64
		return t.row("raise_ids", above).Scan(&ignored[0], &ignored[1])
	})
}

// tx is one transaction with the named statements at hand.
type tx struct {
	ctx context.Context
	s   *Store
	*sql.Tx
	prepared map[string]*sql.Stmt // SQLite only
}

// prepare keeps statements for their next use in the transaction: compiling an INSERT with its triggers takes SQLite longer
// than running it. On PostgreSQL a prepared statement would cost two more round trips. nil means: run it unprepared.
func (t *tx) prepare(name string) *sql.Stmt {
	if t.s.b.Dialect != SQLite {
		return nil
	}
	stmt, ok := t.prepared[name]
	if !ok {
		var err error
		if stmt, err = t.PrepareContext(t.ctx, t.s.query(name)); err != nil {
			return nil // running it shows the error
		}
		t.prepared[name] = stmt
	}
	return stmt
}

func (t *tx) row(name string, args ...any) *sql.Row {
	if stmt := t.prepare(name); stmt != nil {
		return stmt.QueryRowContext(t.ctx, args...)
	}
	return t.QueryRowContext(t.ctx, t.s.query(name), args...)
}

func (t *tx) exec(name string, args ...any) (int64, error) {
	var result sql.Result
	var err error
	if stmt := t.prepare(name); stmt != nil {
		result, err = stmt.ExecContext(t.ctx, args...)
	} else {
		result, err = t.ExecContext(t.ctx, t.s.query(name), args...)
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each calls scan once per row.
func (t *tx) each(name string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := t.QueryContext(t.ctx, t.s.query(name), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// write runs f in a transaction; what says what for, in errors and as the fault point behind its COMMIT.
func (s *Store) write(ctx context.Context, what string, f func(*tx) error) error {
	err := s.in(ctx, s.b.Writer, nil, what, f)
	if err == nil {
		faultpoint.Hit("committed: " + what)
	}
	return err
}

// read runs f on one snapshot.
func (s *Store) read(ctx context.Context, what string, f func(*tx) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if s.b.Dialect == Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	return s.in(ctx, s.b.Reader, options, what, f)
}

func (s *Store) in(ctx context.Context, db *sql.DB, options *sql.TxOptions, what string, f func(*tx) error) error {
	began, err := db.BeginTx(ctx, options)
	if err != nil {
		return s.failed(ctx, what, err)
	}
	if err := f(&tx{ctx: ctx, s: s, Tx: began, prepared: map[string]*sql.Stmt{}}); err != nil {
		return errors.Join(s.failed(ctx, what, err), rolledBack(began))
	}
	if err := began.Commit(); err != nil {
		return s.failed(ctx, what, err)
	}
	return nil
}

// rolledBack reports a failed rollback, unless the transaction is over already because its context or connection ended.
func rolledBack(t *sql.Tx) error {
	err := t.Rollback()
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

func (s *Store) failed(ctx context.Context, what string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) || errors.Is(err, ErrDryRun) {
		return err
	}
	if ctx.Err() != nil { // of which drivers and database/sql say that the transaction is over, or that it was interrupted
		return fmt.Errorf("engine db: %s: %w", what, ctx.Err())
	}
	if s.b.Classify(err) == Unreachable {
		return fault.New(fault.EngineUnreachable, "the Engine DB %s cannot be reached to %s: %w", s.b.Where, what, err).
			WithHint("look at engine: in etl-craft config show")
	}
	return fmt.Errorf("engine db: %s: %w", what, err)
}
