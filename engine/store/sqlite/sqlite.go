// Package sqlite opens an Engine DB in a SQLite file.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

const (
	busyTimeout = time.Minute // how long a transaction waits for another process's
	readers     = 4
)

// Open opens the Engine DB in the file path. A file that does not exist is not made: that, and tables of another version,
// are ENGINE_NOT_MIGRATED or ENGINE_NEWER. path must be on a local file system.
func Open(ctx context.Context, path string) (*store.Store, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.EngineNotMigrated, "the Engine DB %s does not exist yet", path).WithHint("etl-craft migrate")
	}
	s, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := s.CheckVersion(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenToMigrate opens the file whatever is in it, and makes it when it does not exist, readable by its owner only.
func OpenToMigrate(ctx context.Context, path string) (*store.Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unreachable(path, err)
	}
	if err := file.Close(); err != nil {
		return nil, unreachable(path, err)
	}
	s, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := s.Backend().Writer.PingContext(ctx); err != nil {
		return nil, errors.Join(unreachable(path, err), s.Close())
	}
	return s, nil
}

func unreachable(path string, err error) error {
	return fault.New(fault.EngineUnreachable, "the Engine DB %s cannot be opened: %w", path, err).WithHint("look at engine: in etl-craft config show")
}

func open(path string) (*store.Store, error) {
	writing := url.Values{
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		},
	}
	reading := url.Values{
		"mode":    {"rw"}, // a reader of a WAL database writes to its index
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "query_only(1)"},
	}
	write, err := sqlite.NewConnector(address(path, writing))
	if err != nil {
		return nil, unreachable(path, err)
	}
	read, err := sqlite.NewConnector(address(path, reading))
	if err != nil {
		return nil, unreachable(path, err)
	}
	write = patient{write}
	writer := sql.OpenDB(write)
	writer.SetMaxOpenConns(1)
	reader := sql.OpenDB(read)
	reader.SetMaxOpenConns(readers)
	reader.SetMaxIdleConns(readers)
	return store.New(store.Backend{
		Dialect:  store.SQLite,
		Schema:   "main",
		Where:    path,
		Writer:   writer,
		Reader:   reader,
		Direct:   write,
		Classify: classify,
	}), nil
}

// patient connects as soon as no other process writes. SQLite's busy timeout does not cover the change of a new or copied
// file to a WAL.
type patient struct{ driver.Connector }

func (p patient) Connect(ctx context.Context) (driver.Conn, error) {
	return backoff.Retry(ctx, func() (driver.Conn, error) {
		conn, err := p.Connector.Connect(ctx)
		var failed *sqlite.Error
		if errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_BUSY {
			return nil, err
		}
		if err != nil {
			return nil, backoff.Permanent(err)
		}
		return conn, nil
	}, backoff.WithMaxElapsedTime(busyTimeout), backoff.WithBackOff(backoff.NewConstantBackOff(20*time.Millisecond)))
}

func address(path string, options url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}).String()
}

func classify(err error) store.Trouble {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return store.OtherTrouble
	}
	switch code := failed.Code(); {
	case code == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return store.Unique
	case code == sqlite3.SQLITE_CONSTRAINT_CHECK, code == sqlite3.SQLITE_CONSTRAINT_NOTNULL:
		return store.Rule
	case code&0xff == sqlite3.SQLITE_CANTOPEN, code&0xff == sqlite3.SQLITE_NOTADB, code&0xff == sqlite3.SQLITE_IOERR,
		code&0xff == sqlite3.SQLITE_BUSY, code&0xff == sqlite3.SQLITE_READONLY, code&0xff == sqlite3.SQLITE_FULL,
		code&0xff == sqlite3.SQLITE_CORRUPT, code&0xff == sqlite3.SQLITE_PERM, code&0xff == sqlite3.SQLITE_AUTH:
		return store.Unreachable
	case code == sqlite3.SQLITE_ERROR && strings.Contains(failed.Error(), "no such table"):
		return store.NoTable
	}
	return store.OtherTrouble
}
