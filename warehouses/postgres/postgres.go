package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/pgconnect"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Options say where the database is: URL, or the other fields. What neither says is taken from the PG… variables and
// from .pgpass, as by psql.
type Options struct {
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
}

const connectTimeout = 15 * time.Second

// settings are those of every session, whatever role and database have as defaults.
var settings = map[string]string{
	"application_name":              "etl-craft",
	"client_encoding":               "UTF8",
	"TimeZone":                      "UTC",
	"DateStyle":                     "ISO",
	"standard_conforming_strings":   "on",
	"statement_timeout":             "0",
	"default_transaction_isolation": "read committed",
}

// warehouse gives every session a connection of its own.
type warehouse struct {
	config *pgconn.Config

	mu     sync.Mutex
	facts  *warehouses.Facts
	idle   []*pgconn.PgConn // of sessions that are over; a connection that has read the catalog plans faster than a new one
	closed bool
}

// Open prepares access to the database; the first session connects. Options that cannot be used are CONFIG_INVALID.
func Open(o Options) (warehouses.Warehouse, error) {
	config, err := pgconn.ParseConfig(o.address())
	if err != nil {
		reason := err
		if inner := errors.Unwrap(err); inner != nil {
			reason = inner // without the address, which may hold a password
		}
		return nil, fault.New(fault.ConfigInvalid, "the address of the PostgreSQL warehouse cannot be used: %s", firstLine(reason.Error()))
	}
	if o.Password != "" {
		config.Password = o.Password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { return &canceller{conn: conn} }
	return &warehouse{config: config}, nil
}

func (o Options) address() string {
	if o.URL != "" {
		return o.URL
	}
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("host", o.Host)
	if o.Port != 0 {
		set("port", strconv.Itoa(o.Port))
	}
	set("dbname", o.Database)
	set("user", o.User)
	set("sslmode", o.SSLMode)
	set("sslrootcert", o.SSLRootCert)
	set("sslcert", o.SSLCert)
	set("sslkey", o.SSLKey)
	return "postgres://?" + query.Encode()
}

func (w *warehouse) Dialect() *warehouses.Dialect { return Dialect }

func (w *warehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	return warehouses.FactsOf(ctx, w, known)
}

func (w *warehouse) Session(ctx context.Context) (warehouses.Session, error) {
	conn, err := w.connection(ctx)
	if err != nil {
		return nil, w.unreachable(ctx, err)
	}
	s := &session{w: w, conn: conn}
	if s.facts, err = w.learn(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connection is one that a session left and that still stands, or a new one.
func (w *warehouse) connection(ctx context.Context) (*pgconn.PgConn, error) {
	for {
		conn := w.left()
		if conn == nil {
			return pgconnect.Patiently(ctx, func(ctx context.Context) (*pgconn.PgConn, error) { return pgconn.ConnectConfig(ctx, w.config) })
		}
		if conn.Ping(ctx) == nil {
			return conn, nil
		}
		_ = conn.Close(ctx)
	}
}

func (w *warehouse) left() *pgconn.PgConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.idle) == 0 {
		return nil
	}
	conn := w.idle[len(w.idle)-1]
	w.idle = w.idle[:len(w.idle)-1]
	return conn
}

// keep takes a connection for the next session, unless there will be none.
func (w *warehouse) keep(conn *pgconn.PgConn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.idle = append(w.idle, conn)
	}
	return !w.closed
}

const factsQuery = `
SELECT current_database(), session_user, split_part(current_setting('server_version'), ' ', 1), oid, getdatabaseencoding()
FROM pg_database
WHERE datname = current_database()`

func (w *warehouse) learn(ctx context.Context, s *session) (warehouses.Facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.facts != nil {
		return *w.facts, nil
	}
	rows, err := s.query(ctx, factsQuery)
	if err != nil {
		return warehouses.Facts{}, err
	}
	r := rows[0]
	if r[4] == "SQL_ASCII" {
		return warehouses.Facts{}, fault.New(fault.ConfigInvalid, "the database %s has the encoding SQL_ASCII, in which characters cannot be told apart", r[0]).WithHint("use a database with the encoding UTF8")
	}
	server, err := w.server(ctx, s)
	if err != nil {
		return warehouses.Facts{}, err
	}
	w.facts = &warehouses.Facts{Identity: "postgres:" + server + ":" + r[3], Database: r[0], User: r[1], Version: r[2]}
	return *w.facts, nil
}

// server is the number that a cluster got when it was made. Where the user may not read it, host and port must do, and
// two names of one server then count as two servers.
func (w *warehouse) server(ctx context.Context, s *session) (string, error) {
	rows, err := s.query(ctx, "SELECT system_identifier FROM pg_control_system()")
	if err == nil {
		return rows[0][0], nil
	}
	if e := pgError(err); e == nil || e.Code != insufficientPrivilege && e.Code != undefinedFunction {
		return "", err
	}
	return w.place(), nil
}

func (w *warehouse) place() string {
	return net.JoinHostPort(w.config.Host, strconv.Itoa(int(w.config.Port)))
}

// Close closes the connections that sessions have left. Those of open sessions close with them.
func (w *warehouse) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	var errs []error
	for _, conn := range w.idle {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		errs = append(errs, conn.Close(ctx))
		cancel()
	}
	w.idle = nil
	return errors.Join(errs...)
}

// unreachable names server, database and user, never the password.
func (w *warehouse) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.New(fault.TaskCancelled, "connect to PostgreSQL at %s: %w", w.place(), context.Cause(ctx))
	}
	reason, hint, retryable := "", "check that the server runs and that host, port and sslmode of the warehouse are right", true
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server):
		reason = describe(server)
		switch server.Code[:2] {
		case "28":
			hint, retryable = "check user and password of the warehouse, and pg_hba.conf", false
		case "3D":
			hint, retryable = fmt.Sprintf("createdb %s", w.config.Database), false
		}
	default:
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the repetition of user and database
		}
		reason = firstLine(err.Error())
	}
	e := fault.New(fault.WarehouseDown, "no connection to the PostgreSQL database %s at %s as %s: %s", w.config.Database, w.place(), w.config.User, reason).WithHint("%s", hint)
	e.Retryable = retryable
	return e
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
