package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/lockstest"
)

// envPoolers names a transaction pooler for each server, each with 4 connections to a database; the database that ends in
// _session has a pool that keeps sessions.
const envPoolers = "ETL_CRAFT_TEST_PGBOUNCER"

const poolSize = 4

func TestTransactionPoolerIsRefused(t *testing.T) {
	forEachPool(t, func(t *testing.T, direct, pooled string) {
		for range 20 {
			refusedAsPooled(t, pooled)
		}
		// What every session of the pool shows: a refused process left nothing there.
		inAllSessions(t, pooled, func(ctx context.Context, conn *pgx.Conn) {
			var mark, idle string
			var held int
			err := conn.QueryRow(ctx, `
				SELECT coalesce(current_setting('etl_craft.locker', true), ''), current_setting('tcp_keepalives_idle'),
				       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())`).Scan(&mark, &idle, &held)
			if err != nil || mark != "" || idle == "30" || held != 0 {
				t.Errorf("a session of the pool has mark %q, keepalive %s and %d locks: %v", mark, idle, held, err)
			}
		})
		openAt(t, direct+" public", pingEvery)
	})
}

// Others move the sessions of the pool between the statements of the probe.
func TestTransactionPoolerIsRefusedUnderLoad(t *testing.T) {
	forEachPool(t, func(t *testing.T, _, pooled string) {
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		defer others.Wait()
		defer stop()
		for range 2 * poolSize {
			conn := connectPooled(t, pooled)
			others.Go(func() {
				for ctx.Err() == nil {
					if _, err := conn.Exec(context.Background(), `SELECT pg_sleep(0.001)`); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 50 {
			refusedAsPooled(t, pooled)
		}
	})
}

// Two connections of a transaction pool that were not found out never hold one lock both.
func TestMarkKeepsPooledSessionsApart(t *testing.T) {
	forEachPool(t, func(t *testing.T, _, pooled string) {
		one, two := unprobed(t, pooled), unprobed(t, pooled)
		if err := one.sign(t.Context()); err != nil {
			t.Fatal(err)
		}
		// With nobody else there, the pool gives both the same session.
		if err := two.sign(t.Context()); !fault.Has(err, fault.EnginePooled) {
			t.Fatalf("a session was marked twice: %v", err)
		}

		key := newKey(t)
		number := key.Int64()
		sql := statementsFor("no_such_schema")
		ok, err := two.obtain(t.Context(), sql, key, number, locks.Holder{})
		if ok || !fault.Has(err, fault.EnginePooled) {
			t.Errorf("a lock in somebody else's session: %t, %v", ok, err)
		}
		if ok, err := one.obtain(t.Context(), sql, key, number, locks.Holder{}); !ok {
			t.Fatalf("no lock in the own session: %v", err)
		}
		k := &lock{session: one, key: key, number: number}
		if err := k.Check(t.Context()); err != nil {
			t.Error(err)
		}

		three := connectPooled(t, pooled)
		tx, err := three.Begin(t.Context()) // gets the session of one
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := one.obtain(t.Context(), sql, newKey(t), 1, locks.Holder{}); ok || !fault.Has(err, fault.EnginePooled) {
			t.Errorf("a lock in another session: %t, %v", ok, err)
		}
		if err := k.Check(t.Context()); !fault.Has(err, fault.LockLost) {
			t.Errorf("Check in another session: %v", err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A mark that a session brings along is somebody else's.
func TestMarkedSessionIsRefused(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams["etl_craft.locker"] = "somebody"
		if _, err := Open(t.Context(), config, "public"); !fault.Has(err, fault.EnginePooled) {
			t.Errorf("Open: %v", err)
		}
	})
}

// A lock is neither taken nor given back where the mark is not the own one.
func TestOtherMark(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l, place := openNew(t, dsn, createTable)
		key, other := newKey(t), newKey(t)
		k := mustLock(t, l, key)
		s := l.session
		err := s.do(t.Context(), func(ctx context.Context) error {
			_, err := s.conn.Exec(ctx, `SELECT set_config('etl_craft.locker', 'somebody', false)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = s.do(t.Context(), func(ctx context.Context) error { return s.free(ctx, l.sql, key, key.Int64()) })
		if !errors.Is(err, errNotHeld) {
			t.Errorf("free: %v", err)
		}
		if err := k.Check(t.Context()); !fault.Has(err, fault.LockLost) {
			t.Errorf("Check: %v", err)
		}
		if err := k.Release(); !errors.Is(err, errNotHeld) {
			t.Errorf("Release: %v", err)
		}

		// The process goes on with a session of its own.
		mustLock(t, l, other)
		s = l.session
		err = s.do(t.Context(), func(ctx context.Context) error {
			_, err := s.conn.Exec(ctx, `RESET ALL`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.TryLock(t.Context(), key, locks.Holder{What: "target x"})
		if !fault.Has(err, fault.EnginePooled) {
			t.Errorf("TryLock: %v", err)
		}
		if n := query(t, place, `SELECT FROM AUD_LOCKS WHERE LOCK_KEY = $1`, string(key)); n != 0 {
			t.Errorf("%d holders of a lock that was not given", n)
		}
	})
}

// A pool that keeps the session until its client goes serves locks as the server does.
func TestSessionPooler(t *testing.T) {
	forEachPooler(t, func(t *testing.T, dsn, pooler string) {
		keeping := databaseOf(t, pooler, strings.TrimPrefix(mustParse(t, pooler).Path, "/")+"_session")
		lockstest.Run(t, lockstest.Backend{
			New: func(t *testing.T) string {
				return strings.Replace(newPlace(t, dsn, createTable), dsn, keeping, 1)
			},
			Open: openPlace,
			Break: func(t *testing.T, place string, key locks.Key) {
				terminate(t, strings.Replace(place, keeping, dsn, 1), key)
			},
		})
	})
}

// forEachPool runs f with the address of a new database, at the server and through its pooler: nobody else uses its pool.
func forEachPool(t *testing.T, f func(t *testing.T, direct, pooled string)) {
	forEachPooler(t, func(t *testing.T, dsn, pooler string) {
		name := "locks_" + strings.ToLower(rand.Text())
		query(t, dsn+" public", `CREATE DATABASE `+name)
		t.Cleanup(func() { query(t, dsn+" public", `DROP DATABASE `+name+` WITH (FORCE)`) })
		f(t, databaseOf(t, dsn, name), databaseOf(t, pooler, name))
	})
}

func forEachPooler(t *testing.T, f func(t *testing.T, dsn, pooler string)) {
	if os.Getenv(envPoolers) == "" {
		t.Skipf("%s is not set", envPoolers)
	}
	poolers := strings.Split(os.Getenv(envPoolers), ",")
	n := 0
	forEachServer(t, func(t *testing.T, dsn string) {
		pooler := strings.TrimSpace(poolers[n])
		n++
		f(t, dsn, pooler)
	})
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func databaseOf(t *testing.T, address, name string) string {
	t.Helper()
	u := mustParse(t, address)
	u.Path = "/" + name
	return u.String()
}

func refusedAsPooled(t *testing.T, pooled string) {
	t.Helper()
	l, err := openPlace(pooled + " public")
	if err == nil {
		_ = l.Close()
		t.Fatal("locks were opened behind a transaction pooler")
	}
	known := fault.As(err)
	if known.Code != fault.EnginePooled || !strings.Contains(known.Message, mustParse(t, pooled).Host) || !strings.Contains(known.Hint, "engine.direct") {
		t.Fatalf("%s: %v (%s)", known.Code, err, known.Hint)
	}
}

func connectPooled(t *testing.T, pooled string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(pooled)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// unprobed is a session that probe has not seen, without a ping.
func unprobed(t *testing.T, pooled string) *session {
	t.Helper()
	return &session{conn: connectPooled(t, pooled), mark: rand.Text(), busy: make(chan struct{}, 1), lost: make(chan struct{})}
}

// inAllSessions runs f in every session of the pool, by holding them all at once.
func inAllSessions(t *testing.T, pooled string, f func(context.Context, *pgx.Conn)) {
	t.Helper()
	ctx := t.Context()
	for range poolSize {
		conn := connectPooled(t, pooled)
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(ctx) }()
		f(ctx, conn)
	}
}
