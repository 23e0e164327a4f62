package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/lockstest"
)

const envServers = "ETL_CRAFT_TEST_POSTGRES" // DSNs of superusers, separated by commas

const createTable = `
CREATE TABLE AUD_LOCKS (
    LOCK_KEY    text        PRIMARY KEY,
    HOLDER      jsonb       NOT NULL,
    BACKEND_PID int         NOT NULL,
    SINCE       timestamptz NOT NULL
)`

func TestMain(m *testing.M) { lockstest.Main(m, lockstest.Backend{Open: openPlace}) }

func TestLocks(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		lockstest.Run(t, lockstest.Backend{
			New:   func(t *testing.T) string { return newPlace(t, dsn, createTable) },
			Open:  openPlace,
			Break: terminate,
		})
	})
}

func TestWithoutTable(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		one, place := openNew(t, dsn, "")
		two := openAt(t, place, pingEvery)
		key := newKey(t)
		k := mustLock(t, one, key)
		_, err := two.Lock(t.Context(), key, locks.Holder{What: "migrations"}, 1)
		if !fault.Has(err, fault.LockTimeout) || !strings.Contains(err.Error(), "migrations is locked by another process") {
			t.Errorf("a key that is held: %v", err)
		}
		if got, err := two.Held(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("Held: %v, %v", got, err)
		}
		if err := k.Check(t.Context()); err != nil {
			t.Error(err)
		}
		// The lock outlives the migration that makes the table.
		query(t, place, createTable)
		if err := k.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
		k = mustLock(t, two, key)
		if got, err := one.Held(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("Held: %v, %v", got, err)
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutSchema(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l := openAt(t, dsn+" no_such_schema", pingEvery)
		k := mustLock(t, l, newKey(t))
		if got, err := l.Held(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("Held: %v, %v", got, err)
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestPingNoticesALostSession(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		place := newPlace(t, dsn, createTable)
		l := openAt(t, place, 5*time.Millisecond)
		key := newKey(t)
		first, second := mustLock(t, l, key), mustLock(t, l, newKey(t))
		terminate(t, place, key)
		for _, k := range []locks.Lock{first, second} {
			<-k.Lost()
			if err := k.Check(t.Context()); !fault.Has(err, fault.LockLost) {
				t.Errorf("Check: %v", err)
			}
		}
		// The process goes on with a new connection; what was lost stays lost.
		fresh := mustLock(t, l, newKey(t))
		if err := fresh.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := first.Check(t.Context()); !fault.Has(err, fault.LockLost) {
			t.Errorf("Check: %v", err)
		}
		for _, k := range []locks.Lock{first, second, fresh} {
			if err := k.Release(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaiterSurvivesALostSession(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		one, place := openNew(t, dsn, createTable)
		two := openAt(t, place, pingEvery)
		key, other := newKey(t), newKey(t)
		k := mustLock(t, one, key)
		mustLock(t, two, other)
		got := make(chan error, 1)
		go func() {
			w, err := two.Lock(context.Background(), key, locks.Holder{What: "target x"}, 0)
			if err == nil {
				err = w.Release()
			}
			got <- err
		}()
		terminate(t, place, other)
		if err := k.Release(); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

func TestCancelDuringAQueryKeepsTheSession(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l, place := openNew(t, dsn, createTable)
		k := mustLock(t, l, newKey(t))
		blocker, err := connectTo(place)
		if err != nil {
			t.Fatal(err)
		}
		defer blocker.Close(context.Background())
		if _, err := blocker.Exec(t.Context(), `BEGIN; LOCK TABLE AUD_LOCKS`); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		key := newKey(t)
		got := make(chan locks.Lock, 1)
		go func() {
			obtained, err := l.Lock(ctx, key, locks.Holder{What: "target x"}, 0)
			if err != nil {
				t.Error(err)
			}
			got <- obtained
		}()
		for query(t, place, `SELECT FROM pg_locks WHERE relation = 'AUD_LOCKS'::regclass AND NOT granted`) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		for _, held := range []locks.Lock{k, <-got} {
			if held == nil {
				continue
			}
			if err := held.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if err := held.Release(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A pooler in between may give a process another session after every statement: the lock is then not where its holder
// looks for it.
func TestCheckNoticesAnotherSession(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l, _ := openNew(t, dsn, createTable)
		k := mustLock(t, l, newKey(t))
		session := k.(*lock).session
		err := session.do(t.Context(), func(ctx context.Context) error {
			_, err := session.conn.Exec(ctx, sqlUnlockAll, session.mark)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Check(t.Context()); !fault.Has(err, fault.LockLost) || !strings.Contains(err.Error(), "direct:") {
			t.Errorf("Check: %v", err)
		}
		<-k.Lost()
	})
}

func TestHeldIgnoresRowsOfTheDead(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l, place := openNew(t, dsn, createTable)
		key := newKey(t)
		k := mustLock(t, l, key)
		query(t, place, `INSERT INTO AUD_LOCKS SELECT repeat('ab', 32), HOLDER, BACKEND_PID, SINCE FROM AUD_LOCKS`)
		query(t, place, `INSERT INTO AUD_LOCKS SELECT repeat('cd', 32), HOLDER, 0, SINCE FROM AUD_LOCKS LIMIT 1`)
		if got, err := l.Held(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("Held: %v, %v", got, err)
		}
		query(t, place, `UPDATE AUD_LOCKS SET BACKEND_PID = 0`)
		if got, err := l.Held(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("Held: %v, %v", got, err)
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
	})
}

// Whoever cannot write the row gets no lock and leaves none behind.
func TestHolderCannotBeWritten(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l, place := openNew(t, dsn, createTable+`; ALTER TABLE AUD_LOCKS ADD CHECK (HOLDER ->> 'what' <> 'refused')`)
		other := openAt(t, place, pingEvery)
		key := newKey(t)
		if _, err := l.Lock(t.Context(), key, locks.Holder{What: "refused"}, 0); err == nil {
			t.Fatal("the lock was given")
		}
		if err := mustLock(t, other, key).Release(); err != nil {
			t.Error(err)
		}
		if err := mustLock(t, l, key).Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestSession(t *testing.T) {
	forEachServer(t, func(t *testing.T, dsn string) {
		l, _ := openNew(t, dsn, createTable)
		s := l.session
		err := s.do(t.Context(), func(ctx context.Context) error {
			for name, want := range map[string]string{
				"application_name":     "etl-craft locks",
				"tcp_keepalives_idle":  "30",
				"idle_session_timeout": "0",
			} {
				var got string
				if err := s.conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&got); err != nil {
					return err
				}
				if got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestOpenUnreachable(t *testing.T) {
	config, err := pgx.ParseConfig("postgres://etl:not-to-be-shown@127.0.0.1:1/etl")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), config, "etl_craft")
	if !fault.Has(err, fault.EngineUnreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("Open: %v", err)
	}
	if strings.Contains(err.Error(), "not-to-be-shown") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestAdvisory(t *testing.T) {
	for key, want := range map[locks.Key]int64{
		"00000000000000ff" + "aa": 255,
		"ffffffffffffffff":        -1,
		"8000000000000000":        -1 << 63,
	} {
		if got, err := advisory(key); err != nil || got != want {
			t.Errorf("advisory(%s) is %d, %v, want %d", key, got, err, want)
		}
	}
	for _, key := range []locks.Key{"", "abcd", "not hex, not a key"} {
		if _, err := advisory(key); err == nil {
			t.Errorf("advisory(%q) succeeded", key)
		}
	}
}

func forEachServer(t *testing.T, f func(t *testing.T, dsn string)) {
	servers := os.Getenv(envServers)
	if servers == "" {
		t.Skipf("%s is not set", envServers)
	}
	for i, dsn := range strings.Split(servers, ",") {
		t.Run(fmt.Sprintf("server%d", i+1), func(t *testing.T) { f(t, strings.TrimSpace(dsn)) })
	}
}

// newPlace makes a schema of its own; a place is "DSN SCHEMA".
func newPlace(t *testing.T, dsn, sql string) string {
	t.Helper()
	schema := "Locks_" + strings.ToLower(rand.Text()) // upper case needs the quotes
	place := dsn + " " + schema
	query(t, dsn+" public", `CREATE SCHEMA "`+schema+`"`)
	t.Cleanup(func() { query(t, dsn+" public", `DROP SCHEMA "`+schema+`" CASCADE`) })
	if sql != "" {
		query(t, place, sql)
	}
	return place
}

func configOf(place string) (config *pgx.ConnConfig, schema string, err error) {
	at := strings.LastIndexByte(place, ' ')
	config, err = pgx.ParseConfig(place[:at])
	return config, place[at+1:], err
}

func openPlace(place string) (locks.Locker, error) {
	config, schema, err := configOf(place)
	if err != nil {
		return nil, err
	}
	return Open(context.Background(), config, schema)
}

func openNew(t *testing.T, dsn, sql string) (l *locker, place string) {
	t.Helper()
	place = newPlace(t, dsn, sql)
	return openAt(t, place, pingEvery), place
}

func openAt(t *testing.T, place string, ping time.Duration) *locker {
	t.Helper()
	config, schema, err := configOf(place)
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(t.Context(), config, schema, ping)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func connectTo(place string) (*pgx.Conn, error) {
	config, schema, err := configOf(place)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	return pgx.ConnectConfig(context.Background(), config)
}

// query runs sql on a connection of its own, with the place's schema as search path, and returns the number of rows.
func query(t *testing.T, place, sql string, args ...any) int64 {
	t.Helper()
	ctx := context.Background() // also used after the test's context has ended
	conn, err := connectTo(place)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := conn.Exec(ctx, sql, args...)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}

// terminate ends the session that holds key, and returns when the server has ended it.
func terminate(t *testing.T, place string, key locks.Key) {
	t.Helper()
	n := query(t, place, `SELECT pg_terminate_backend(BACKEND_PID, 30000) FROM AUD_LOCKS WHERE LOCK_KEY = $1`, string(key))
	if n != 1 {
		t.Fatalf("%d holders of the key", n)
	}
}

func mustLock(t *testing.T, l locks.Locker, key locks.Key) locks.Lock {
	t.Helper()
	k, err := l.Lock(t.Context(), key, locks.Holder{What: "target x"}, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newKey(t *testing.T) locks.Key { return locks.TargetKey(t.Name(), rand.Text()) }
