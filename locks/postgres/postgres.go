// Package postgres keeps the locks of a PostgreSQL Engine DB as advisory locks of one session, which the server frees
// when the session ends. The table AUD_LOCKS names the holders; before the first migration it does not exist, and locks
// are given without it.
//
// The session must be with PostgreSQL itself: behind a transaction pooler it would belong to somebody else after every
// statement. Such a pooler is noticed and refused.
package postgres

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/internal/line"
)

const (
	applicationName = "etl-craft locks"
	connectTimeout  = 10 * time.Second
	queryTimeout    = 10 * time.Second
	pingEvery       = 30 * time.Second
	// Waiters share the session with those who hold locks, so they ask less often than files are asked.
	maxPause = 250 * time.Millisecond
)

type locker struct {
	*line.Line
	config *pgx.ConnConfig
	sql    statements
	ping   time.Duration

	mu      sync.Mutex
	session *session
	closed  bool
}

// Open connects to the Engine DB and returns its locks. config must lead to PostgreSQL itself, not to a transaction
// pooler, which is a *fault.Error with code ENGINE_POOLED; schema is where AUD_LOCKS is or will be. A server that cannot be
// reached is ENGINE_UNREACHABLE. The locks use one connection, whatever their number.
func Open(ctx context.Context, config *pgx.ConnConfig, schema string) (locks.Locker, error) {
	return open(ctx, config, schema, pingEvery)
}

func open(ctx context.Context, config *pgx.ConnConfig, schema string, ping time.Duration) (*locker, error) {
	config = config.Copy()
	config.RuntimeParams["application_name"] = applicationName
	// A statement prepared before a migration would not survive it.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	l := &locker{config: config, sql: statementsFor(schema), ping: ping}
	l.Line = line.New(maxPause, line.Source{Try: l.try, HolderOf: l.holderOf})
	if _, _, err := l.current(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// current returns the session, a fresh one when there is none or the last one is lost.
func (l *locker) current(ctx context.Context) (s *session, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false, line.ErrClosed
	}
	if l.session != nil && l.session.why() == nil {
		return l.session, false, nil
	}
	s, err = connect(ctx, l.config, l.ping)
	if err != nil {
		return nil, false, err
	}
	l.session = s
	return s, true, nil
}

// on runs f on the session, and once more on a fresh one when the session turns out to be lost. It is for what does not
// depend on locks already held.
func (l *locker) on(ctx context.Context, f func(context.Context, *session) error) error {
	for {
		s, fresh, err := l.current(ctx)
		if err != nil {
			return err
		}
		err = s.do(ctx, func(ctx context.Context) error { return f(ctx, s) })
		if err == nil {
			return nil
		}
		lost := s.why()
		if lost == nil || fault.Has(lost, fault.EnginePooled) {
			return err
		}
		if fresh {
			return fault.New(fault.EngineUnreachable, "the connection for locks to %s was lost: %w", address(l.config), lost)
		}
	}
}

func (l *locker) try(ctx context.Context, key locks.Key, holder locks.Holder) (locks.Lock, error) {
	number, err := advisory(key)
	if err != nil {
		return nil, err
	}
	var k *lock
	err = l.on(ctx, func(ctx context.Context, s *session) error {
		ok, err := s.obtain(ctx, l.sql, key, number, holder)
		if ok {
			k = &lock{locker: l, session: s, key: key, number: number, holder: holder}
		}
		return err
	})
	if err != nil || k == nil {
		return nil, err
	}
	return k, nil
}

func (l *locker) Held(ctx context.Context) ([]locks.Holder, error) { return l.holders(ctx, nil) }

func (l *locker) holderOf(ctx context.Context, key locks.Key) *locks.Holder {
	text := string(key)
	held, err := l.holders(ctx, &text)
	if err != nil || len(held) == 0 {
		return nil
	}
	return &held[0]
}

func (l *locker) holders(ctx context.Context, key *string) (held []locks.Holder, err error) {
	err = l.on(ctx, func(ctx context.Context, s *session) error {
		rows, err := s.conn.Query(ctx, l.sql.holders, key)
		if err != nil {
			return err
		}
		held, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h locks.Holder, err error) {
			var text []byte
			var since time.Time
			if err := row.Scan(&text, &since); err != nil {
				return h, err
			}
			err = json.Unmarshal(text, &h)
			h.Since = since.UTC()
			return h, err
		})
		return err
	})
	if noTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the locks: %w", err)
	}
	return held, nil
}

func (l *locker) Close() error {
	l.Line.Close()
	l.mu.Lock()
	s := l.session
	l.session, l.closed = nil, true
	l.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.end(l.sql)
}

// advisory is the number that PostgreSQL locks for key: its first 8 bytes. Two keys with one number (one pair in 2^64)
// only wait for each other without need; inside one process, where the server would give the number twice, the two keys
// still exclude as they should, each against itself.
func advisory(key locks.Key) (int64, error) {
	raw, err := hex.DecodeString(string(key))
	if err != nil || len(raw) < 8 {
		return 0, fault.New(fault.Internal, "%q is not the key of a lock", string(key))
	}
	return int64(binary.BigEndian.Uint64(raw)), nil
}

// noTable reports that AUD_LOCKS does not exist yet.
func noTable(err error) bool {
	const undefinedTable = "42P01"
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == undefinedTable
}

func address(c *pgx.ConnConfig) string { return fmt.Sprintf("%s:%d", c.Host, c.Port) }
