package databricks

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	dbsql "github.com/databricks/databricks-sql-go"
	"github.com/databricks/databricks-sql-go/logger"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Options say where the SQL warehouse is and who asks. Either Token is set, or ClientID and ClientSecret.
type Options struct {
	Host         string // also as a browser shows it, https://host/
	Port         int    // 0 is 443
	Plain        bool   // by http instead of https
	HTTPPath     string
	Catalog      string
	Schema       string // default schema of the session; "" is the server's
	Token        string
	ClientID     string // of a service principal, which signs in by OAuth
	ClientSecret string
	Settings     map[string]string // of the session, besides those that are always set
}

// ParseAddress reads options from http(s)://token:<token>@host:port/<http path>?catalog=…&schema=…; what else it asks for
// are settings.
func ParseAddress(address string) (Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Options{}, fault.New(fault.ConfigInvalid, "the address of the SQL warehouse cannot be read") // the reason would repeat its token
	}
	query := u.Query()
	o := Options{Host: u.Hostname(), Plain: u.Scheme == "http", HTTPPath: u.Path, Catalog: query.Get("catalog"), Schema: query.Get("schema"), Settings: map[string]string{}}
	for name := range query {
		if name != "catalog" && name != "schema" {
			o.Settings[name] = query.Get(name)
		}
	}
	o.Token, _ = u.User.Password()
	if u.Port() != "" {
		o.Port, err = strconv.Atoi(u.Port())
	}
	return o, err
}

// readHost takes a host as an address apart.
func (o *Options) readHost() error {
	if strings.Contains(o.Host, "://") {
		u, err := url.Parse(o.Host)
		if err != nil {
			return fault.New(fault.ConfigInvalid, "warehouse.host is %q", o.Host).WithHint("write the host alone, such as dbc-1234.cloud.databricks.com")
		}
		o.Host, o.Plain = u.Hostname(), u.Scheme == "http"
		if u.Port() != "" {
			if o.Port, err = strconv.Atoi(u.Port()); err != nil {
				return err
			}
		}
	}
	if o.Port == 0 {
		o.Port = 443
	}
	return nil
}

// maxIdle is how many connections are kept for later sessions. A session leaves nothing behind in its connection.
const maxIdle = 16

// idleTime is well below the time after which the server ends a session that nobody uses.
const idleTime = 5 * time.Minute

type warehouse struct {
	options Options
	db      *sql.DB

	mu    sync.Mutex
	facts *warehouses.Facts
}

// silence keeps the driver from logging each error to stderr, with its statement. Its level is one for all connections.
var silence = sync.OnceValue(func() error { return logger.SetLogLevel("disabled") })

// Open prepares access to the SQL warehouse; the first session connects.
func Open(o Options) (warehouses.Warehouse, error) {
	if err := silence(); err != nil {
		return nil, err
	}
	if err := o.readHost(); err != nil {
		return nil, err
	}
	scheme := "https://"
	if o.Plain {
		scheme = "http://"
	}
	settings := map[string]string{"timezone": "UTC", "ansi_mode": "true"}
	maps.Copy(settings, o.Settings)
	options := []dbsql.ConnOption{
		dbsql.WithServerHostname(scheme + o.Host), dbsql.WithPort(o.Port), dbsql.WithHTTPPath(o.HTTPPath),
		dbsql.WithInitialNamespace(o.Catalog, o.Schema), dbsql.WithUserAgentEntry("etl-craft"),
		dbsql.WithSessionParams(settings),
	}
	if o.ClientID != "" {
		options = append(options, dbsql.WithClientCredentials(o.ClientID, o.ClientSecret))
	} else {
		options = append(options, dbsql.WithAccessToken(o.Token))
	}
	connector, err := dbsql.NewConnector(options...)
	if err != nil {
		return nil, fault.New(fault.ConfigInvalid, "the SQL warehouse cannot be used: %s", firstLine(err.Error()))
	}
	w := &warehouse{options: o, db: sql.OpenDB(connector)}
	w.db.SetMaxIdleConns(maxIdle)
	w.db.SetConnMaxIdleTime(idleTime)
	return w, nil
}

func (w *warehouse) Dialect() *warehouses.Dialect { return Dialect }

func (w *warehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	return warehouses.FactsOf(ctx, w, known)
}

// Session takes a connection that still answers. Those that were kept may have ended in the server.
func (w *warehouse) Session(ctx context.Context) (warehouses.Session, error) {
	var err error
	for range maxIdle + 1 {
		var conn *sql.Conn
		if conn, err = w.db.Conn(ctx); err != nil {
			return nil, w.unreachable(ctx, err)
		}
		s := &session{conn: conn}
		if s.facts, err = w.learn(ctx, s); err == nil {
			return s, nil
		}
		s.spoiled = true
		_ = s.Close()
		if !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	return nil, w.unreachable(ctx, err)
}

func (w *warehouse) learn(ctx context.Context, s *session) (warehouses.Facts, error) {
	rows, err := s.Rows(ctx, "SELECT current_user(), split_part(version(), ' ', 1)", 1)
	if err != nil {
		return warehouses.Facts{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.facts == nil {
		w.facts = &warehouses.Facts{
			Identity: "databricks:" + strings.ToLower(w.place()) + ":" + strings.ToLower(w.options.Catalog),
			Database: w.options.Catalog, User: rows[0][0], Version: rows[0][1],
		}
	}
	return *w.facts, nil
}

// place is the host, with its port where that is not the usual one. Every SQL warehouse of a workspace has the same.
func (w *warehouse) place() string {
	if w.options.Port == 443 {
		return w.options.Host
	}
	return net.JoinHostPort(w.options.Host, strconv.Itoa(w.options.Port))
}

// closeTime is how long the end of the program waits for the server to end sessions. It ends those that nobody uses anyway.
const closeTime = 10 * time.Second

// Close ends the connections that sessions have left. Those of open sessions close with them.
func (w *warehouse) Close() error {
	ended := make(chan error, 1)
	go func() { ended <- w.db.Close() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(closeTime):
		return nil
	}
}
