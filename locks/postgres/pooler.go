package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/pgconnect"
)

// probes is how often a pooler is tempted to give the session away. Once is enough for one without other work. Of a pool of
// two sessions that others keep busy all the time, the worst, one in some hundred probes finds nothing: see the mark.
const probes = 8

// A transaction pooler is found twice. probe finds it before any lock is taken, unless others use the pool in step with it.
// The mark keeps locks apart even then: nobody marks a marked session, and locks are taken and given back only in the
// session with the own mark. Both fail with ENGINE_POOLED.

// probe fails when the connection does not keep its session between transactions.
func (s *session) probe(ctx context.Context) error {
	pid, err := backend(ctx, s.conn)
	if err != nil {
		return err
	}
	// PostgreSQL names its process when a session begins. What speaks its protocol in between names something of its own,
	// as also poolers do that keep the session.
	if pid == s.conn.PgConn().PID() {
		return nil
	}
	given, err := givenAway(ctx, s.conn, pid)
	if err == nil && given {
		return s.pooled()
	}
	return err
}

// sign marks the session as this connection's, and fails when it is another's.
func (s *session) sign(ctx context.Context) error {
	var signed bool
	err := s.conn.QueryRow(ctx, sqlSign, s.mark).Scan(&signed)
	if err == nil && !signed {
		return s.pooled()
	}
	return err
}

// givenAway reports whether session pid of conn, between two transactions of conn, serves another connection or is
// replaced. The other connection keeps a transaction open meanwhile, because an idle pooler gives the session back.
func givenAway(ctx context.Context, conn *pgx.Conn, pid uint32) (given bool, err error) {
	other, err := pgconnect.Patiently(ctx, func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, conn.Config()) })
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, other.Close(ctx)) }()
	for range probes {
		tx, err := other.Begin(ctx)
		if err != nil {
			return false, err
		}
		theirs, err := backend(ctx, other)
		if err != nil || theirs == pid {
			return err == nil, err
		}
		meanwhile, err := backend(ctx, conn)
		if err != nil || meanwhile != pid {
			return err == nil, err
		}
		if err := tx.Rollback(ctx); err != nil {
			return false, err
		}
		afterwards, err := backend(ctx, conn)
		if err != nil || afterwards != pid {
			return err == nil, err
		}
	}
	return false, nil
}

func backend(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, sqlBackend).Scan(&pid)
	return pid, err
}

func (s *session) pooled() error {
	return fault.New(fault.EnginePooled, "%s is a transaction pooler, where the session that holds the locks would not stay with this process",
		address(s.conn.Config())).
		WithHint("engine.direct in etl-craft.yml has to name the PostgreSQL server behind it, for example direct: {host: db.example.com, port: 5432}")
}
