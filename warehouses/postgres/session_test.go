package postgres

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestStatements(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		for _, step := range []struct {
			statement string
			rows      int64
		}{
			{"CREATE TABLE " + s + ".t (a integer, b text)", -1},
			{"INSERT INTO " + s + ".t SELECT i, 'x' FROM generate_series(1, 5) AS i", 5},
			{"UPDATE " + s + ".t SET b = NULL WHERE a > 3", 2},
			{"DELETE FROM " + s + ".t WHERE a = 1", 1},
			{"SELECT pg_advisory_xact_lock(1)", -1},
			{"CREATE TABLE " + s + ".u AS SELECT * FROM " + s + ".t", 4},
		} {
			n, err := c.Exec(t.Context(), warehouses.SQL(step.statement))
			if err != nil || n != step.rows {
				t.Errorf("%s: %d, %v, want %d", step.statement, n, err, step.rows)
			}
		}
		for query, want := range map[string]int64{"SELECT count(*) FROM %.t": 4, "SELECT sum(a::bigint) FROM %.t": 14, "SELECT max(a) FROM %.t WHERE a < 0": 0, "SELECT -9223372036854775808": -9223372036854775808} {
			n, err := c.Int(t.Context(), warehouses.SQL(strings.ReplaceAll(query, "%", s)))
			if err != nil || n != want {
				t.Errorf("%s: %d, %v, want %d", query, n, err, want)
			}
		}
		for _, query := range []string{"SELECT 1, 2", "SELECT 1 WHERE false", "SELECT 'x'"} {
			if n, err := c.Int(t.Context(), warehouses.SQL(query)); err == nil {
				t.Errorf("%s: %d", query, n)
			}
		}
		rows, err := c.Rows(t.Context(), warehouses.SQL("SELECT a, b FROM "+s+".t WHERE a < $1 OR b IS NULL ORDER BY a"), 3, 4)
		if err != nil || !slices.EqualFunc(rows, [][]string{{"2", "x"}, {"3", "x"}, {"4", "NULL"}}, slices.Equal) {
			t.Error(rows, err)
		}
		if _, err := c.Exec(t.Context(), warehouses.SQL("SELECT 1; DROP TABLE "+s+".t")); !fault.Has(err, fault.StatementFailed) {
			t.Errorf("two statements at once: %v", err)
		}
	})
}

func TestErrors(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE TABLE " + s + ".t (a integer UNIQUE, v varchar(2))")
		for statement, want := range map[string]string{
			"SELECT * FROM %.nowhere":                          `UndefinedTable: relation "%.nowhere" does not exist`,
			"SELECT 1/0":                                       "DivisionByZero: division by zero",
			"INSERT INTO %.t VALUES (1, 'abc')":                "StringDataRightTruncation: value too long for type character varying(2)",
			"INSERT INTO %.t VALUES (1), (1)":                  `UniqueViolation: duplicate key value violates unique constraint "t_a_key"`,
			"SELECT CAST('x' AS integer)":                      `InvalidTextRepresentation: invalid input syntax for type integer: "x"`,
			"DO $$ BEGIN RAISE SQLSTATE 'ZZ001'; END $$":       "ZZ001: ZZ001",
			"DO $$ BEGIN RAISE 'first' || E'\\n' ; END $$":     "SyntaxError: ",
			"DO $$ BEGIN RAISE EXCEPTION E'one\\ntwo'; END $$": "RaiseException: one",
		} {
			_, err := c.Exec(t.Context(), warehouses.SQL(strings.ReplaceAll(statement, "%", s)))
			e := fault.As(err)
			if !fault.Has(err, fault.StatementFailed) || !strings.HasPrefix(e.Message, strings.ReplaceAll(want, "%", s)) || strings.Contains(e.Message, "\n") || e.Retryable {
				t.Errorf("%s: %v, want %s", statement, err, want)
			}
		}
		for state, want := range map[string]bool{"08006": true, "40001": true, "40003": true, "53100": true, "53300": true, "57P01": true, "57P03": true, "55P03": true,
			"55006": false, "57014": false, "23505": false, "42P01": false, "22012": false} {
			_, err := c.Exec(t.Context(), warehouses.SQL("DO $$ BEGIN RAISE SQLSTATE '"+state+"'; END $$"))
			if e := fault.As(err); e == nil || e.Retryable != want {
				t.Errorf("%s: %v, retryable %t", state, err, want)
			}
		}
	})
}

// TestConflicts: transactions that collide are to be done again.
func TestConflicts(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		a, b := connect(t, w), connect(t, w)
		s := a.schema()
		a.exec("CREATE TABLE "+s+".t (k integer PRIMARY KEY, v integer)", "INSERT INTO "+s+".t VALUES (1, 0), (2, 0)")
		update := func(c *client, k string) error {
			_, err := c.Exec(t.Context(), warehouses.SQL("UPDATE "+s+".t SET v = v + 1 WHERE k = "+k))
			return err
		}
		for _, c := range []*client{a, b} {
			if err := c.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(update(a, "1"), update(b, "2")); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 2)
		for _, c := range []struct {
			*client
			k string
		}{{a, "2"}, {b, "1"}} {
			go func() {
				err := update(c.client, c.k)
				failed <- errors.Join(err, c.Rollback())
			}()
		}
		if err := errors.Join(<-failed, <-failed); !fault.Has(err, fault.WriteConflict) || !fault.As(err).Retryable {
			t.Errorf("deadlock: %v", err)
		}

		other := unique("pt")
		a.after("DROP SCHEMA " + other)
		if err := a.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		create := warehouses.SQL("CREATE SCHEMA IF NOT EXISTS " + other)
		a.exec(string(create))
		go func() {
			_, err := b.Exec(t.Context(), create)
			failed <- err
		}()
		connect(t, w).until("SELECT count(*) > 0 FROM pg_locks WHERE pid = $1 AND NOT granted", b.conn.PID())
		if err := a.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !fault.Has(err, fault.WriteConflict) || !strings.HasPrefix(fault.As(err).Message, "UniqueViolation: ") {
			t.Errorf("two CREATE SCHEMA: %v", err)
		}
	})
}

const activeQuery = "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND state = 'active' AND wait_event = 'PgSleep'"

// TestCancel: the statement has ended in the server when the error is returned, and the session can roll back.
func TestCancel(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c, watch := connect(t, w), connect(t, w)
		s := c.schema()
		reason := errors.New("the task was stopped")
		for _, inTransaction := range []bool{true, false} {
			if inTransaction {
				if err := c.Begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.exec("CREATE TABLE " + s + ".t (a integer)")
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			failed := make(chan error)
			go func() {
				_, err := c.Exec(ctx, "SELECT pg_sleep(600)")
				failed <- err
			}()
			watch.until(activeQuery, c.conn.PID())
			cancel(reason)
			err := <-failed
			if !fault.Has(err, fault.TaskCancelled) || !errors.Is(err, reason) {
				t.Errorf("%v", err)
			}
			if watch.value(activeQuery, c.conn.PID()) != "f" {
				t.Error("the statement still runs")
			}
			if err := c.Rollback(); err != nil {
				t.Error(err)
			}
			if c.table(s, "t") != nil {
				t.Error("the transaction was not rolled back")
			}
			if _, err := c.Exec(ctx, "SELECT 1"); !fault.Has(err, fault.TaskCancelled) {
				t.Errorf("a statement after the end: %v", err)
			}
		}
	})
}

// TestCancelAtAnyMoment: wherever the cancellation falls, the rollback works and later statements are not hit by it.
func TestCancelAtAnyMoment(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		for i := range 40 {
			if err := c.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			_, err := c.Exec(ctx, "SELECT pg_sleep(0.002)")
			cancel()
			if err != nil && !fault.Has(err, fault.TaskCancelled) {
				t.Fatal(err)
			}
			if err := c.Rollback(); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Int(t.Context(), "SELECT 1"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	})
}

func TestTerminated(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c, admin := connect(t, w), connect(t, w)
		if err := c.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := c.Exec(t.Context(), "SELECT pg_sleep(600)")
			failed <- err
		}()
		admin.until(activeQuery, c.conn.PID())
		admin.exec("SELECT pg_terminate_backend(" + admin.value("SELECT $1::int", c.conn.PID()) + ")")
		if err := <-failed; !fault.Has(err, fault.StatementFailed) || !fault.As(err).Retryable || !strings.HasPrefix(fault.As(err).Message, "AdminShutdown: ") {
			t.Error(err)
		}
		if _, err := c.Exec(t.Context(), "SELECT 1"); !fault.Has(err, fault.WarehouseDown) || !fault.As(err).Retryable {
			t.Errorf("a session came back: %v", err)
		}
		if err := c.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

func TestCommitAnswers(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE TABLE " + s + ".t (a integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		begin := func() {
			if err := c.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		begin()
		c.exec("INSERT INTO " + s + ".t VALUES (1), (1)")
		if err := c.Commit(t.Context()); !fault.Has(err, fault.StatementFailed) {
			t.Errorf("a constraint at the end: %v", err)
		}
		begin()
		_, _ = c.Exec(t.Context(), "SELECT 1/0")
		if err := c.Commit(t.Context()); !fault.Has(err, fault.StatementFailed) {
			t.Errorf("after a failed statement: %v", err)
		}
		begin()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Commit(ended); !fault.Has(err, fault.TaskCancelled) {
			t.Errorf("never sent: %v", err)
		}
		if err := c.Rollback(); err != nil {
			t.Error(err)
		}
		if n := c.value("SELECT count(*) FROM " + s + ".t"); n != "0" {
			t.Errorf("%s rows", n)
		}
	})
}

// TestCommitReplyLost: the server commits, its answer does not arrive, and the outcome is unknown.
func TestCommitReplyLost(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		direct := connect(t, open(t, Options{URL: address}))
		s := direct.schema()
		direct.exec("CREATE TABLE " + s + ".t (a integer)")
		c := connect(t, open(t, Options{URL: mute(t, address, "COMMIT")}))
		if err := c.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.exec("INSERT INTO " + s + ".t VALUES (1)")
		err := c.Commit(t.Context())
		if !fault.Has(err, fault.CommitUnknown) || !fault.As(err).Retryable {
			t.Error(err)
		}
		if n := direct.value("SELECT count(*) FROM " + s + ".t"); n != "1" {
			t.Errorf("%s rows", n)
		}
		if err := c.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

// TestConnectionLost: anywhere but at COMMIT, a lost connection means that nothing was committed.
func TestConnectionLost(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: mute(t, address, "SELECT 17")}))
		if err := c.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Int(t.Context(), "SELECT 17"); !fault.Has(err, fault.WarehouseDown) || !fault.As(err).Retryable {
			t.Error(err)
		}
	})
}

// mute is the address of a proxy that forwards everything until it has forwarded word; it swallows the answer to that
// and hangs up.
func mute(t *testing.T, address, word string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { forward(client, server, word) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	u.Host = listener.Addr().String()
	u.RawQuery = "sslmode=disable"
	return u.String()
}

func forward(client net.Conn, address, word string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var muted atomic.Bool
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := client.Read(buf)
			if bytes.Contains(buf[:n], []byte(word)) {
				muted.Store(true)
			}
			if _, failed := server.Write(buf[:n]); err != nil || failed != nil {
				_ = server.Close()
				return
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if err != nil || muted.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil && !errors.Is(err, os.ErrClosed) {
			return
		}
	}
}
