// Package postgres opens an Engine DB in a PostgreSQL database.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/pgconnect"
)

const (
	applicationName = "etl-craft"
	connectTimeout  = 10 * time.Second
	connections     = 2
)

// Config says where the Engine DB is. Addresses are URLs or key=value strings, as PostgreSQL's own clients take them.
type Config struct {
	Address       string
	DirectAddress string // leads past a transaction pooler, for locks and migrations; "" is Address
	Schema        string // "" is etl_craft
}

// DefaultSchema is where the tables are unless Config says otherwise.
const DefaultSchema = "etl_craft"

var schemaPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]{0,62}$`)

// SchemaName is the schema of the tables.
func (c Config) SchemaName() string {
	if c.Schema == "" {
		return DefaultSchema
	}
	return c.Schema
}

// Connect is how to connect for ordinary work. Nothing in it depends on the session, so a transaction pooler may be in
// between.
func (c Config) Connect() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(c.Address)
	if err != nil {
		return nil, fault.New(fault.ConfigInvalid, "the address of the Engine DB cannot be used: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	config.RuntimeParams["application_name"] = applicationName
	// No prepared statements: behind a pooler the next statement may reach another session.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config, nil
}

// Direct is how to connect to PostgreSQL itself.
func (c Config) Direct() (*pgx.ConnConfig, error) {
	if c.DirectAddress != "" {
		c.Address = c.DirectAddress
	}
	return c.Connect()
}

// Open opens the Engine DB. Tables that are missing or of another version are ENGINE_NOT_MIGRATED or ENGINE_NEWER.
func Open(ctx context.Context, c Config) (*store.Store, error) {
	s, err := OpenToMigrate(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.CheckVersion(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenToMigrate opens the database whatever is in it.
func OpenToMigrate(_ context.Context, c Config) (*store.Store, error) {
	schema := c.SchemaName()
	if !schemaPattern.MatchString(schema) {
		return nil, fault.New(fault.ConfigInvalid, "the schema %q of the Engine DB is not a letter or _ followed by letters, digits, _ and $", schema)
	}
	config, err := c.Connect()
	if err != nil {
		return nil, err
	}
	direct, err := c.Direct()
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(pgconnect.Connector{Connector: stdlib.GetConnector(*config)})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return store.New(store.Backend{
		Dialect:  store.Postgres,
		Schema:   pgx.Identifier{schema}.Sanitize(),
		Where:    fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database),
		Writer:   db,
		Reader:   db,
		Direct:   pgconnect.Connector{Connector: stdlib.GetConnector(*direct)},
		Classify: classify,
	}), nil
}

func classify(err error) store.Trouble {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch {
		case refused.Code == "23505":
			return store.Unique
		case refused.Code == "23514", refused.Code == "23502":
			return store.Rule
		case refused.Code == "42P01", refused.Code == "3F000":
			return store.NoTable
		// Connection exceptions, no more connections, shutting down or starting, unknown user or database.
		case strings.HasPrefix(refused.Code, "08"), strings.HasPrefix(refused.Code, "53"), strings.HasPrefix(refused.Code, "57P"),
			strings.HasPrefix(refused.Code, "28"), refused.Code == "3D000":
			return store.Unreachable
		}
		return store.OtherTrouble
	}
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) {
		return store.Unreachable
	}
	return store.OtherTrouble
}
