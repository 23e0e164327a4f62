// Package pgconnect waits for a place on a PostgreSQL server that has none left at the moment.
package pgconnect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// patience is how long a process waits for a place. Many processes that start at once need more connections for a moment
// than the server has; each of them ends within seconds.
var patience = time.Minute

// Patiently connects, again and again while the server says that it has too many connections or is just starting. Other
// errors are returned at once.
func Patiently[T any](ctx context.Context, connect func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	var last error
	conn, err := backoff.Retry(ctx, func() (T, error) {
		conn, err := connect(ctx)
		if err != nil && !full(err) && code(err) != cannotConnectNow {
			err = backoff.Permanent(err)
		}
		last = err
		return conn, err
	}, backoff.WithMaxElapsedTime(patience), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 100 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 1.5, MaxInterval: 2 * time.Second,
	}))
	if err != nil && ctx.Err() != nil && last != nil {
		err = fmt.Errorf("%w; the server had said: %w", err, last)
	}
	if full(err) {
		err = fmt.Errorf("no free connection for %v; a process of etl-craft needs about three, so raise max_connections or start fewer at once: %w",
			time.Since(began).Round(time.Second), err)
	}
	return conn, err
}

// full reports whether the server, or a PgBouncer in front of it, has no free connection.
func full(err error) bool {
	return code(err) == tooManyConnections || code(err) == protocolViolation && strings.Contains(err.Error(), "max_client_conn")
}

// code is the SQLSTATE with which the server refused, "" when it did not.
func code(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

const (
	tooManyConnections = "53300"
	cannotConnectNow   = "57P03"
	protocolViolation  = "08P01" // PgBouncer's only code for whatever it refuses
)

// Connector is a database/sql connector that connects Patiently.
type Connector struct{ driver.Connector }

// Connect connects.
func (c Connector) Connect(ctx context.Context) (driver.Conn, error) {
	return Patiently(ctx, c.Connector.Connect)
}
