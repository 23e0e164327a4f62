package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// patience is how long a cancelled statement may take to end before its connection is given up.
	patience = 30 * time.Second
	// insistence is the time between requests to cancel: one that arrives before the server has read the statement is
	// forgotten by it.
	insistence = 250 * time.Millisecond
)

// canceller ends the statement in the server when its context ends, and keeps the connection for the ROLLBACK.
type canceller struct {
	conn *pgconn.PgConn
	stop context.CancelFunc
	done chan struct{}
}

// HandleCancel implements ctxwatch.Handler.
func (c *canceller) HandleCancel(context.Context) {
	deadline := time.Now().Add(patience)
	_ = c.conn.Conn().SetDeadline(deadline)
	ended, stop := context.WithCancel(context.Background())
	c.stop, c.done = stop, make(chan struct{})
	go func() {
		defer close(c.done)
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		for {
			// Not tied to ended: when the request has come through, its signal cannot hit a later statement.
			_ = c.conn.CancelRequest(ctx)
			select {
			case <-time.After(insistence):
			case <-ended.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	}()
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (c *canceller) HandleUnwatchAfterCancel() {
	c.stop()
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
