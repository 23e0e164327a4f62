package migrations

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3/database"

	"github.com/etl-craft/etl-craft/engine/store"
)

const (
	// Both last until the end of the transaction: a pooler may hand the session to somebody else after it.
	postgresSession = `
SELECT set_config('search_path', $1, true), set_config('etl_craft.actor', $2, true),
       set_config('etl_craft.actor_kind', $3, true), set_config('etl_craft.origin', $4, true)`
	sqliteSession    = `INSERT INTO ENGINE_SESSION (SESSION_ID, ACTOR, ACTOR_KIND, ORIGIN) VALUES (1, $1, $2, $3)`
	sqliteSessionEnd = `DELETE FROM ENGINE_SESSION`
)

// sessionHook begins each transaction with the search path and with who writes and from which file. goose has no place for
// that between its BEGIN and the first statement of a file.
type sessionHook struct {
	dialect store.Dialect
	schema  string // quoted
	actor   store.Actor
	file    file
}

// begin is called right after BEGIN.
func (h *sessionHook) begin(ctx context.Context, c driver.ExecerContext) error {
	if h.file.stream == "" {
		return nil
	}
	who := []any{h.actor.Name, h.actor.Kind, "migration " + h.file.name}
	statement := sqliteSession
	switch {
	case h.dialect == store.Postgres:
		statement, who = postgresSession, append([]any{h.schema}, who...)
	case h.file.stream == Engine:
		return nil // ENGINE_SESSION may not exist yet
	}
	args := make([]driver.NamedValue, len(who))
	for i, v := range who {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	_, err := c.ExecContext(ctx, statement, args)
	return err
}

func endSession(ctx context.Context, db database.DBTxConn, dialect store.Dialect) error {
	if dialect != store.SQLite {
		return nil
	}
	_, err := db.ExecContext(ctx, sqliteSessionEnd)
	return err
}

func (h *sessionHook) wrap(c driver.Connector) driver.Connector { return hookedConnector{c, h} }

type hookedConnector struct {
	driver.Connector
	hook *sessionHook
}

func (c hookedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := opened.(fullConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T is not a usable connection", opened), opened.Close())
	}
	return &hookedConn{full, c.hook}, nil
}

// fullConn is what database/sql asks of a connection and both drivers offer.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

type hookedConn struct {
	fullConn
	hook *sessionHook
}

func (c *hookedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := c.hook.begin(ctx, c.fullConn); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}
