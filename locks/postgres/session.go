package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/pgconnect"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/internal/line"
)

// session is one connection and the locks it holds. It is lost once and for ever.
type session struct {
	conn *pgx.Conn
	mark string        // of the server's session; no other session has it
	busy chan struct{} // holds a token while a goroutine uses conn
	ping sync.WaitGroup

	mu     sync.Mutex
	reason error
	lost   chan struct{}
}

func connect(ctx context.Context, config *pgx.ConnConfig, ping time.Duration) (*session, error) {
	s := &session{mark: rand.Text(), busy: make(chan struct{}, 1), lost: make(chan struct{})}
	err := s.open(ctx, config)
	if fault.Has(err, fault.EnginePooled) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.EngineUnreachable, "no connection for locks to %s: %w", address(config), err)
	}
	s.ping.Go(func() { s.pingEvery(ping) })
	return s, nil
}

func (s *session) open(ctx context.Context, config *pgx.ConnConfig) (err error) {
	s.conn, err = pgconnect.Patiently(ctx, func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = s.probe(ctx)
	if err == nil {
		err = s.sign(ctx)
	}
	if err == nil {
		_, err = s.conn.Exec(ctx, sqlPrepare)
	}
	if err != nil {
		return errors.Join(err, s.conn.Close(ctx))
	}
	return nil
}

// do runs f while nobody else uses the connection. f's context is not ended by ctx: pgx closes a connection whose
// query is cancelled, and every lock with it. A query that takes longer than queryTimeout means that the session is
// lost.
func (s *session) do(ctx context.Context, f func(context.Context) error) error {
	select {
	case s.busy <- struct{}{}:
	case <-s.lost:
		return s.why()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.busy }()
	if err := s.why(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	err := f(ctx)
	if err != nil && s.conn.IsClosed() {
		s.lose(err)
	}
	return err
}

// lose marks the session lost and closes its connection; the caller uses conn.
func (s *session) lose(why error) {
	s.mu.Lock()
	first := s.reason == nil
	if first {
		s.reason = why
		close(s.lost)
	}
	s.mu.Unlock()
	if first && !s.conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
		defer cancel()
		_ = s.conn.Close(ctx) // the session is over either way
	}
}

// why is nil while the session is not known to be lost.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

func (s *session) pingEvery(d time.Duration) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-s.lost:
			return
		case <-tick.C:
		}
		// An error that did not end the session is no news about its locks.
		_ = s.do(context.Background(), func(ctx context.Context) error {
			_, err := s.conn.Exec(ctx, sqlPing)
			return err
		})
	}
}

// obtain takes the lock and names its holder. For do.
func (s *session) obtain(ctx context.Context, sql statements, key locks.Key, number int64, holder locks.Holder) (bool, error) {
	text, err := json.Marshal(holder)
	if err != nil {
		return false, err
	}
	var ok bool
	err = s.conn.QueryRow(ctx, sqlTryLock, number, s.mark).Scan(&ok)
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.pooled()
		s.lose(err)
		return false, err
	}
	if err == nil && !ok {
		return false, nil
	}
	if err == nil {
		_, err = s.conn.Exec(ctx, sql.writeHolder, string(key), string(text))
		if noTable(err) {
			err = nil
		}
	}
	if err != nil {
		// The server may have given the lock before the error; the end of a transaction does not take it back.
		_, unlockErr := s.conn.Exec(ctx, sqlUnlock, number, s.mark)
		if unlockErr != nil {
			s.lose(unlockErr)
		}
		return false, fmt.Errorf("lock %s: %w", holder.What, err)
	}
	return true, nil
}

// free gives the lock back. For do. When it cannot, it ends the session: the server would give the lock a second time
// to this session, and one release would then not free it.
func (s *session) free(ctx context.Context, sql statements, key locks.Key, number int64) error {
	_, rowErr := s.conn.Exec(ctx, sql.clearHolder, string(key))
	if noTable(rowErr) {
		rowErr = nil
	}
	var ok bool
	err := s.conn.QueryRow(ctx, sqlUnlock, number, s.mark).Scan(&ok)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !ok {
		err = errNotHeld
	}
	if err != nil {
		s.lose(err)
	}
	return errors.Join(rowErr, err)
}

// end frees all locks and closes the connection. The locks are freed by statement, because the server may take a
// moment to notice a closed connection.
func (s *session) end(sql statements) error {
	err := s.do(context.Background(), func(ctx context.Context) error {
		_, rowErr := s.conn.Exec(ctx, sql.clearHolders)
		if noTable(rowErr) {
			rowErr = nil
		}
		_, err := s.conn.Exec(ctx, sqlUnlockAll, s.mark)
		lost := s.conn.IsClosed()
		s.lose(line.ErrClosed)
		if lost {
			return nil // the server has freed them
		}
		return errors.Join(rowErr, err)
	})
	s.ping.Wait()
	if err != nil && s.why() == line.ErrClosed {
		return fmt.Errorf("close the locks: %w", err)
	}
	return nil
}
