package duckdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Options say which file to open and how much of the machine it may use.
type Options struct {
	Path        string
	Threads     int    // 0 is DuckDB's choice
	MemoryLimit string // "" is DuckDB's choice

	Wait time.Duration // for another process that has the file open; 0 is as long as the context allows
	Log  *slog.Logger  // says for whom is waited; nil is silence

	Looks bool // nothing will be written: a file that does not exist is not made, it is as an empty one
}

// How long the one handle of a process outlives its last session, and how often an idle one looks for other processes.
const (
	idleTime = time.Second
	idlePoll = 20 * time.Millisecond
)

// warehouse owns the process's one handle of the file. Nothing else in the process may open or close the file: closing
// any descriptor of it would drop DuckDB's lock.
type warehouse struct {
	options Options
	name    string // the file's database: its name without the extension
	turn    *turn
	empty   string // folder of the empty file that stands for the missing one; "" where there is none

	mu       sync.Mutex
	db       *sql.DB
	sessions int
	idle     *time.Timer
	since    time.Time
	closed   bool
	changed  chan struct{} // closed and renewed whenever sessions or db change
	facts    *warehouses.Facts
}

// Open prepares access to the file; it is opened by the first session and created when it does not exist.
func Open(o Options) (warehouses.Warehouse, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	o.Path = path
	name := Database(path)
	if slices.Contains([]string{"memory", "system", "temp"}, strings.ToLower(name)) {
		return nil, fault.New(fault.ConfigInvalid, "DuckDB keeps the name %s for itself, so no warehouse file can have it: %s", name, path).WithHint("rename the file")
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fault.New(fault.WarehouseDown, "the folder of the DuckDB file %s does not exist", path).WithHint("mkdir -p %s", filepath.Dir(path))
	}
	w := &warehouse{name: name, changed: make(chan struct{})}
	if _, err := os.Stat(path); o.Looks && errors.Is(err, os.ErrNotExist) {
		if w.empty, err = os.MkdirTemp("", "etl-craft-"); err != nil {
			return nil, err
		}
		o.Path = filepath.Join(w.empty, filepath.Base(path))
	}
	w.options, w.turn = o, newTurn(o)
	return w, nil
}

// Database is the name of a file's database: the file's, without its extension.
func Database(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

func (w *warehouse) Dialect() *warehouses.Dialect { return Dialect }

// spillFolder is beside the file, as DuckDB's own programs have it.
func (w *warehouse) spillFolder() string { return w.options.Path + ".tmp" }

// Spilled implements warehouses.Spiller.
func (w *warehouse) Spilled() (folder string, files []string, err error) {
	folder = w.spillFolder()
	found, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return folder, nil, nil
	}
	for _, f := range found {
		if strings.HasPrefix(f.Name(), "duckdb_temp_") {
			files = append(files, filepath.Join(folder, f.Name()))
		}
	}
	return folder, files, err
}

func (w *warehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	return warehouses.FactsOf(ctx, w, known)
}

func (w *warehouse) Session(ctx context.Context) (warehouses.Session, error) {
	db, err := w.acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		w.release()
		return nil, unreachable(w.options.Path, err)
	}
	s := &session{&Session{Conn: conn, Classify: classify, Released: w.release}}
	if s.Learned, err = w.learn(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// acquire gives the handle to one more session. While another process waits for the file, new sessions let it have its
// turn first.
func (w *warehouse) acquire(ctx context.Context) (*sql.DB, error) {
	for {
		w.mu.Lock()
		if w.db != nil && (w.sessions == 0 || !w.turn.wanted()) {
			w.sessions++
			db := w.db
			w.mu.Unlock()
			return db, nil
		}
		if w.db == nil {
			err := w.open(ctx)
			w.mu.Unlock()
			if err != nil {
				return nil, err
			}
			continue
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(idlePoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open takes the turn and opens the file; the caller holds mu.
func (w *warehouse) open(ctx context.Context) error {
	if w.closed {
		return fault.New(fault.WarehouseDown, "the warehouse was closed")
	}
	if err := w.turn.take(ctx); err != nil {
		return err
	}
	_, missing := os.Stat(w.options.Path)
	db, err := w.connect(ctx)
	if err != nil {
		w.turn.give()
		return err
	}
	if errors.Is(missing, os.ErrNotExist) {
		_ = os.Chmod(w.options.Path, 0o600)
	}
	w.db = db
	return nil
}

// outsiders is how long a program that is not etl-craft may keep the file before that is an error.
var outsiders = 5 * time.Second

func (w *warehouse) connect(ctx context.Context) (*sql.DB, error) {
	// Of its own accord an instance without a main file would use the working directory.
	q := url.Values{"temp_directory": {w.spillFolder()}}
	if w.options.Threads > 0 {
		q.Set("threads", fmt.Sprint(w.options.Threads))
	}
	if w.options.MemoryLimit != "" {
		q.Set("memory_limit", w.options.MemoryLimit)
	}
	// The file is attached to an empty instance and not opened as its main database, because DuckDB 1.5 cannot replay a
	// log with an ALTER of a table that has a DEFAULT of its own before there is a default database: a crash after
	// SCHEMA_EVOLUTION would leave a file that nothing opens (duckdb issues 20543 and 22124).
	setUp := []string{
		"SET TimeZone = 'UTC'",
		"ATTACH IF NOT EXISTS " + string(Dialect.Text(w.options.Path)) + " AS " + string(Dialect.Ident(w.name)),
		"USE " + string(Dialect.Ident(w.name)),
	}
	deadline := time.Now().Add(outsiders)
	for {
		connector, err := duckdb.NewConnector("?"+q.Encode(), func(c driver.ExecerContext) error {
			for _, statement := range setUp {
				if _, err := c.ExecContext(context.Background(), statement, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, unreachable(w.options.Path, err)
		}
		db := sql.OpenDB(connector)
		if err = db.PingContext(ctx); err == nil {
			return db, nil
		}
		_ = db.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var e *duckdb.Error
		if !errors.As(err, &e) || e.Type != duckdb.ErrorTypeIO || !strings.Contains(e.Msg, "lock") {
			return nil, unreachable(w.options.Path, err)
		}
		if time.Now().After(deadline) {
			return nil, fault.New(fault.WarehouseLocked, "the DuckDB file %s cannot be opened: %s", w.options.Path, firstLine(err)).WithHint("close the program that has it open")
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (w *warehouse) learn(ctx context.Context, s *session) (warehouses.Facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.facts != nil {
		return *w.facts, nil
	}
	var f warehouses.Facts
	if err := s.row(ctx, "SELECT current_database(), session_user, version()").Scan(&f.Database, &f.User, &f.Version); err != nil {
		return f, s.Failed(ctx, err)
	}
	info, err := os.Stat(w.options.Path)
	if err != nil {
		return f, unreachable(w.options.Path, err)
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return f, fault.New(fault.Internal, "the system does not number files")
	}
	f.Identity = fmt.Sprintf("duckdb:%d:%d", file.Dev, file.Ino)
	w.facts = &f
	return f, nil
}

// release ends one session's use of the handle. The handle stays for a moment, in case another task comes, unless
// another process waits.
func (w *warehouse) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions--
	w.signal()
	if w.sessions > 0 {
		return
	}
	if w.closed || w.turn.wanted() {
		_ = w.shut()
		return
	}
	w.since = time.Now()
	if w.idle == nil {
		w.idle = time.AfterFunc(idlePoll, w.linger)
	} else {
		w.idle.Reset(idlePoll)
	}
}

func (w *warehouse) linger() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions > 0 || w.db == nil {
		return
	}
	if w.turn.wanted() || time.Since(w.since) > idleTime {
		_ = w.shut()
		return
	}
	w.idle.Reset(idlePoll)
}

// shut closes the file and gives the turn away; the caller holds mu.
func (w *warehouse) shut() error {
	if w.db == nil {
		return nil
	}
	err := w.db.Close()
	w.db = nil
	w.turn.give()
	w.signal()
	if w.closed {
		err = errors.Join(err, w.forgetEmpty())
	}
	return err
}

func (w *warehouse) forgetEmpty() error {
	if w.empty == "" {
		return nil
	}
	return os.RemoveAll(w.empty)
}

func (w *warehouse) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *warehouse) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.idle != nil {
		w.idle.Stop()
	}
	if w.sessions > 0 {
		return nil // the last session's release shuts the file
	}
	return errors.Join(w.shut(), w.forgetEmpty())
}

func unreachable(path string, err error) error {
	return fault.New(fault.WarehouseDown, "the DuckDB file %s cannot be opened: %s", path, firstLine(err)).
		WithHint("look at warehouse: in etl-craft config show")
}
