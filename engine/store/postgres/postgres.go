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
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

const (
	applicationName = "etl-craft"
	connectTimeout  = 10 * time.Second
	connections     = 2
)

// Config says where the Engine DB is. URL, or the fields from Host to SSLKey.
type Config struct {
	URL         string
	Host        string
	Port        int // 0 is 5432
	Database    string
	User        string
	Password    string
	SSLMode     string // "" is prefer
	SSLRootCert string
	SSLCert     string
	SSLKey      string

	Schema string // "" is etl_craft
	// DirectHost and DirectPort lead past a transaction pooler, for locks and migrations. "" is Host.
	DirectHost string
	DirectPort int
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
	address := c.URL
	if address == "" {
		address = c.address()
	}
	config, err := pgx.ParseConfig(address)
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
	config, err := c.Connect()
	if err != nil || c.DirectHost == "" {
		return config, err
	}
	direct := c
	direct.Host, direct.Port = c.DirectHost, c.DirectPort
	if c.URL != "" {
		direct.URL, err = withHost(c.URL, c.DirectHost, c.DirectPort)
		if err != nil {
			return nil, err
		}
	}
	direct.DirectHost = ""
	return direct.Connect()
}

func withHost(address, host string, port int) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", fault.New(fault.ConfigInvalid, "a direct address needs an engine URL of the form postgres://host/database")
	}
	u.Host = hostPort(host, port)
	return u.String(), nil
}

func hostPort(host string, port int) string {
	if port == 0 {
		port = 5432
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func (c Config) address() string {
	options := url.Values{}
	for name, value := range map[string]string{
		"sslmode": c.SSLMode, "sslrootcert": c.SSLRootCert, "sslcert": c.SSLCert, "sslkey": c.SSLKey,
	} {
		if value != "" {
			options.Set(name, value)
		}
	}
	u := url.URL{Scheme: "postgres", Host: hostPort(c.Host, c.Port), Path: "/" + c.Database, RawQuery: options.Encode()}
	if c.Password != "" {
		u.User = url.UserPassword(c.User, c.Password)
	} else if c.User != "" {
		u.User = url.User(c.User)
	}
	return u.String()
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
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return store.New(store.Backend{
		Dialect:  store.Postgres,
		Schema:   pgx.Identifier{schema}.Sanitize(),
		Where:    fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database),
		Writer:   db,
		Reader:   db,
		Direct:   stdlib.GetConnector(*direct),
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
