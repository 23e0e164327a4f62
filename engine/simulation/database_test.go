package simulation_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/etl-craft/etl-craft/engine/store"
	enginelite "github.com/etl-craft/etl-craft/engine/store/sqlite"
	lockslite "github.com/etl-craft/etl-craft/locks/sqlite"
	"github.com/etl-craft/etl-craft/migrations"
)

// errDead is what a process gets from its Engine DB after its death.
var errDead = errors.New("this process is dead")

// template is an Engine DB with the real tables, and triggers that note every change of a state in SIM_LOG.
type template struct {
	image    []byte
	classify func(error) store.Trouble
}

// firstID is above the ids of the Engine DB of any case, whatever day it is made on.
const firstID = 1000

func newTemplate(dir string) (t template, err error) {
	ctx := context.Background()
	path := filepath.Join(dir, "engine.db")
	locker, err := lockslite.Open(path + ".locks")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	fresh, err := enginelite.OpenToMigrate(ctx, path)
	if err != nil {
		return t, err
	}
	t.classify = fresh.Backend().Classify
	_, err = migrations.Up(ctx, migrations.Target{Store: fresh, Locker: locker, Actor: store.Actor{Name: "simulation", Kind: "SYSTEM"}})
	if err := errors.Join(err, fresh.Close()); err != nil {
		return t, err
	}
	text, err := os.ReadFile("testdata/log.sql")
	if err != nil {
		return t, err
	}
	d := &database{}
	if err := d.open("file:" + path + "?_pragma=journal_mode(DELETE)"); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, d.conn.Close()) }()
	for _, statement := range strings.Split(string(text), "\n\n") {
		if _, err := d.exec(statement); err != nil {
			return t, fmt.Errorf("%s: %w", statement, err)
		}
	}
	if _, err := d.exec("UPDATE sqlite_sequence SET seq = " + strconv.Itoa(firstID) + " WHERE name IN ('AUD_PIPELINES_RUN_LOG', 'AUD_TASK_RUN_LOG')"); err != nil {
		return t, err
	}
	t.image, err = d.conn.(interface{ Serialize() ([]byte, error) }).Serialize()
	return t, err
}

// database is the Engine DB of a case: one SQLite database in memory, which all processes of the case share. A transaction
// takes no virtual time, so they follow each other, as they do behind SQLite's one writer; what takes time is to get there.
type database struct {
	conn     driver.Conn
	classify func(error) store.Trouble
	busy     sync.Mutex // held by the open transaction
	stmts    map[string]driver.Stmt
	txs      []transactionInfo // those that were begun; SIM_LOG names them by their place here
	looks    []look
}

// transactionInfo says who did a transaction, and when.
type transactionInfo struct {
	at  time.Time
	by  *process
	sql string // its first statement
}

// look is the moment in which a process asked which upstream run satisfies a dependency.
type look struct {
	tx           int
	by           *process
	pipelineEdge int64 // one of them is 0
	taskEdge     int64
	date         string
}

// open connects to SQLite. Its clock is the one of the goroutine that asks, which is virtual inside of a bubble.
func (d *database) open(dsn string) error {
	engine := &sqlite.Driver{}
	if err := engine.RegisterScalarFunction("strftime", -1, clock); err != nil {
		return err
	}
	err := engine.RegisterScalarFunction("sim_tx", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return int64(len(d.txs) - 1), nil
	})
	if err != nil {
		return err
	}
	d.stmts = map[string]driver.Stmt{}
	d.conn, err = engine.Open(dsn)
	return err
}

// clock is strftime as the statements of the Engine DB use it.
func clock(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	if len(args) < 2 || len(args) > 3 || args[0] != "%Y-%m-%dT%H:%M:%f" || args[1] != "now" {
		return nil, fmt.Errorf("the virtual clock does not know strftime(%v)", args)
	}
	now := time.Now().UTC()
	if len(args) == 3 {
		if args[2] == nil {
			return nil, nil
		}
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(fmt.Sprint(args[2]), " seconds"), 64)
		if err != nil {
			return nil, err
		}
		now = now.Add(time.Duration(seconds * float64(time.Second)))
	}
	return now.Format("2006-01-02T15:04:05.000"), nil
}

// openDatabase makes the Engine DB of many cases, one after the other. All that a case does is one transaction of SQLite, which
// its reset undoes; the transactions of its processes are savepoints in it.
func openDatabase(t template) (*database, error) {
	d := &database{classify: t.classify}
	if err := d.open(":memory:"); err != nil {
		return nil, err
	}
	if err := d.conn.(interface{ Deserialize([]byte) error }).Deserialize(t.image); err != nil {
		return nil, err
	}
	if _, err := d.exec("PRAGMA foreign_keys = 1"); err != nil {
		return nil, err
	}
	_, err := d.exec("BEGIN")
	return d, err
}

// reset makes the Engine DB what it was before the case.
func (d *database) reset() error {
	d.txs, d.looks = nil, nil
	if _, err := d.exec("ROLLBACK"); err != nil {
		return err
	}
	_, err := d.exec("BEGIN")
	return err
}

func (d *database) close() error {
	for _, s := range d.stmts {
		_ = s.Close()
	}
	return d.conn.Close()
}

func (d *database) stmt(query string) (driver.Stmt, error) {
	if s, ok := d.stmts[query]; ok {
		return s, nil
	}
	s, err := d.conn.Prepare(query)
	if err == nil {
		d.stmts[query] = s
	}
	return s, err
}

func (d *database) exec(query string, args ...driver.NamedValue) (driver.Result, error) {
	s, err := d.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.(driver.StmtExecContext).ExecContext(context.Background(), args)
}

func (d *database) query(query string, args ...driver.NamedValue) (*table, error) {
	s, err := d.stmt(query)
	if err != nil {
		return nil, err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), args)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	t := &table{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(t.columns))
		if err := rows.Next(row); err != nil {
			if err == io.EOF {
				return t, nil
			}
			return nil, err
		}
		t.rows = append(t.rows, row)
	}
}

// ask reads rows for the test itself, between transactions.
func (d *database) ask(query string, args ...any) [][]driver.Value {
	d.busy.Lock()
	defer d.busy.Unlock()
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	t, err := d.query(query, values...)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", query, err))
	}
	return t.rows
}

// table is a result that was read to its end.
type table struct {
	columns []string
	rows    [][]driver.Value
}

func (t *table) Columns() []string { return t.columns }
func (t *table) Close() error      { return nil }

func (t *table) Next(to []driver.Value) error {
	if len(t.rows) == 0 {
		return io.EOF
	}
	copy(to, t.rows[0])
	t.rows = t.rows[1:]
	return nil
}

// store opens the Engine DB for a process.
func (d *database) store(p *process) *store.Store {
	db := sql.OpenDB(dialer{p})
	return store.New(store.Backend{Dialect: store.SQLite, Schema: "main", Where: "engine.db", Writer: db, Reader: db, Classify: d.classify})
}

// dialer connects a process to the Engine DB.
type dialer struct{ p *process }

func (d dialer) Connect(context.Context) (driver.Conn, error) {
	return &session{p: d.p, d: d.p.w.db}, nil
}
func (d dialer) Driver() driver.Driver { return nil }

// session is a connection of a process. The process dies in it.
type session struct {
	p  *process
	d  *database
	tx *transaction // nil outside of one
}

// transaction begins with its first statement.
type transaction struct {
	s          *session
	readOnly   bool
	begun      bool
	statements int
}

func (s *session) Close() error              { return nil }
func (s *session) Begin() (driver.Tx, error) { return nil, errors.New("there is no context") }

func (s *session) BeginTx(_ context.Context, o driver.TxOptions) (driver.Tx, error) {
	s.tx = &transaction{s: s, readOnly: o.ReadOnly}
	return s.tx, nil
}

func (s *session) Prepare(query string) (driver.Stmt, error) { return &statement{s, query}, nil }

// statement is prepared when it is first used, when the process has got through to the database.
type statement struct {
	s     *session
	query string
}

func (x *statement) Close() error  { return nil }
func (x *statement) NumInput() int { return -1 }

func (x *statement) Exec([]driver.Value) (driver.Result, error) { return nil, errors.ErrUnsupported }
func (x *statement) Query([]driver.Value) (driver.Rows, error)  { return nil, errors.ErrUnsupported }

func (x *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return x.s.ExecContext(ctx, x.query, args)
}

func (x *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return x.s.QueryContext(ctx, x.query, args)
}

func (s *session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.do(ctx, query, args, func() (err error) {
		r, err = s.d.exec(query, args...)
		return err
	})
	return r, err
}

func (s *session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Rows, err error) {
	err = s.do(ctx, query, args, func() (err error) {
		r, err = s.d.query(query, args...)
		return err
	})
	return r, err
}

// do runs one statement, after the time that it takes to reach the database.
func (s *session) do(ctx context.Context, query string, args []driver.NamedValue, run func() error) error {
	if s.tx == nil {
		if err := s.p.reach(ctx, key(query, args)); err != nil {
			return err
		}
		s.d.busy.Lock()
		defer s.d.busy.Unlock()
		s.d.begin(s.p, query)
		return run()
	}
	if !s.tx.begun {
		if err := s.p.reach(ctx, key(query, args)); err != nil {
			return err
		}
		if err := s.tx.begin(query); err != nil {
			return err
		}
	}
	s.tx.statements++
	if s.p.isDead() {
		return errors.Join(errDead, s.tx.end(undone))
	}
	if s.p.diesWithin(s.tx) {
		err := s.tx.end(undone)
		s.p.die("within a transaction")
		return errors.Join(errDead, err)
	}
	s.d.note(s.p, query, args)
	return run()
}

func (d *database) begin(p *process, query string) {
	d.txs = append(d.txs, transactionInfo{time.Now(), p, query})
}

func (t *transaction) begin(query string) error {
	t.s.d.busy.Lock()
	t.begun = true
	t.s.d.begin(t.s.p, query)
	_, err := t.s.d.exec("SAVEPOINT process")
	return err
}

// end ends the transaction in the database, once.
func (t *transaction) end(how string) error {
	t.s.tx = nil
	if !t.begun {
		return nil
	}
	t.begun = false
	defer t.s.d.busy.Unlock()
	if how == undone {
		if _, err := t.s.d.exec("ROLLBACK TO process"); err != nil {
			return err
		}
	}
	_, err := t.s.d.exec("RELEASE process")
	return err
}

// How a transaction ends.
const (
	done   = "done"
	undone = "undone"
)

// Commit commits. A process can die before the database hears of it, and before it hears from the database.
func (t *transaction) Commit() error {
	if t.s.p.isDead() {
		return errors.Join(errDead, t.end(undone))
	}
	began := t.begun
	err := t.end(done)
	if err == nil && began && !t.readOnly && t.s.p.diesAfterCommit() {
		t.s.p.die("after a commit")
		return errDead
	}
	return err
}

func (t *transaction) Rollback() error { return t.end(undone) }

// note keeps the questions about upstream runs.
func (d *database) note(p *process, query string, args []driver.NamedValue) {
	l := look{tx: len(d.txs) - 1, by: p}
	switch {
	case strings.Contains(query, "c.PIPELINE_DEPENDENCY_ID = $4"):
		l.pipelineEdge = args[3].Value.(int64)
	case strings.Contains(query, "c.TASK_DEPENDENCY_ID = $4"):
		l.taskEdge = args[3].Value.(int64)
	default:
		return
	}
	l.date, _ = args[1].Value.(string)
	d.looks = append(d.looks, l)
}

// key names a statement and its whole numbers: what is the same whenever a case is played.
func key(query string, args []driver.NamedValue) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, query)
	for _, a := range args {
		if n, ok := a.Value.(int64); ok {
			_, _ = h.Write(strconv.AppendInt(nil, n, 36))
		}
	}
	return h.Sum64()
}
