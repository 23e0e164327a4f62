package trino

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/trinodb/trino-go-client/trino"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Options say where the coordinator is and who asks. Password and AccessToken need TLS.
type Options struct {
	Host        string
	Port        int // 0 is 443 with TLS, 8080 without
	Catalog     string
	Schema      string
	User        string
	Password    string
	AccessToken string
	TLS         bool
}

// ParseAddress reads options from http(s)://user[:password]@host:port?catalog=…&schema=….
func ParseAddress(address string) (Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Options{}, fault.New(fault.ConfigInvalid, "the address of Trino cannot be read") // the reason would repeat its password
	}
	o := Options{Host: u.Hostname(), User: u.User.Username(), Catalog: u.Query().Get("catalog"), Schema: u.Query().Get("schema"), TLS: u.Scheme == "https"}
	o.Password, _ = u.User.Password()
	if u.Port() != "" {
		o.Port, err = strconv.Atoi(u.Port())
	}
	return o, err
}

// retryTimeout is how long the driver repeats a request that did not reach the server, or one that only asks for results.
const retryTimeout = 15 * time.Second

// warehouse gives every session a connection of its own. A connection is a few headers; the server keeps nothing for it.
type warehouse struct {
	place     string // host:port
	options   Options
	db        *sql.DB
	transport *http.Transport

	mu    sync.Mutex
	facts *warehouses.Facts
}

// Open prepares access to the catalog; the first session connects. Options that cannot be used are CONFIG_INVALID.
func Open(o Options) (warehouses.Warehouse, error) {
	scheme, port := "http", 8080
	if o.TLS {
		scheme, port = "https", 443
	}
	if o.Port != 0 {
		port = o.Port
	}
	if !o.TLS && (o.Password != "" || o.AccessToken != "") {
		return nil, fault.New(fault.ConfigInvalid, "Trino takes a password or an access token only over TLS").WithHint("set warehouse.tls to true")
	}
	place := net.JoinHostPort(o.Host, strconv.Itoa(port))
	address := url.URL{Scheme: scheme, Host: place, User: url.User(o.User)}
	if o.Password != "" {
		address.User = url.UserPassword(o.User, o.Password)
	}
	retry, transport := retryTimeout, http.DefaultTransport.(*http.Transport).Clone()
	connector, err := client.NewConnector(&client.Config{
		ServerURI: address.String(), Source: "etl-craft", Catalog: o.Catalog, Schema: o.Schema, TimeZone: "UTC", AccessToken: o.AccessToken,
		RequestRetryTimeout: &retry, HTTPClient: &http.Client{Transport: once{transport}},
	})
	if err != nil {
		return nil, fault.New(fault.ConfigInvalid, "the address of the Trino warehouse cannot be used: %s", firstLine(withoutURL(err).Error()))
	}
	return &warehouse{place: place, options: o, db: sql.OpenDB(connector), transport: transport}, nil
}

// once keeps the driver from sending a statement again that a gateway may have passed on: it takes the answers 502 and 504
// for requests that did not arrive.
type once struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.Transport.RoundTrip(req)
	if err == nil && req.Method == http.MethodPost && (resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the gateway answered %s", resp.Status)
	}
	return resp, err
}

func (w *warehouse) Dialect() *warehouses.Dialect { return Dialect }

func (w *warehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	return warehouses.FactsOf(ctx, w, known)
}

func (w *warehouse) Session(ctx context.Context) (warehouses.Session, error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, w.unreachable(err)
	}
	s := &session{w: w, conn: conn}
	if s.facts, err = w.learn(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

const factsQuery = `
SELECT version(), current_user, (SELECT connector_name FROM system.metadata.catalogs WHERE catalog_name = {catalog})`

func (w *warehouse) learn(ctx context.Context, s *session) (warehouses.Facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.facts != nil {
		return *w.facts, nil
	}
	rows, err := s.Rows(ctx, warehouses.SQL(strings.ReplaceAll(factsQuery, "{catalog}", string(Dialect.Text(w.options.Catalog)))), 1)
	if fault.Has(err, fault.StatementFailed) || fault.Has(err, fault.WarehouseDown) {
		return warehouses.Facts{}, w.unreachable(err)
	}
	if err != nil {
		return warehouses.Facts{}, err
	}
	switch connector := rows[0][2]; connector {
	case "iceberg":
	case "NULL":
		return warehouses.Facts{}, fault.New(fault.ConfigInvalid, "Trino at %s has no catalog %s", w.place, w.options.Catalog).WithHint("SHOW CATALOGS lists those there are; set warehouse.catalog to one of them")
	default:
		return warehouses.Facts{}, fault.New(fault.ConfigInvalid, "the catalog %s of Trino at %s has the connector %s, and etl-craft writes Iceberg tables", w.options.Catalog, w.place, connector).
			WithHint("set warehouse.catalog to a catalog with the connector iceberg")
	}
	w.facts = &warehouses.Facts{Identity: "trino:" + strings.ToLower(w.place) + "/" + w.options.Catalog, Database: w.options.Catalog, User: rows[0][1], Version: rows[0][0]}
	return *w.facts, nil
}

func (w *warehouse) Close() error {
	err := w.db.Close()
	w.transport.CloseIdleConnections()
	return err
}

// unreachable names server and user, never the password.
func (w *warehouse) unreachable(err error) error {
	if fault.Has(err, fault.TaskCancelled) {
		return err
	}
	hint, retryable := "check that the server runs and that host, port and tls of the warehouse are right", true
	var failed *client.ErrQueryFailed
	if errors.As(err, &failed) && (failed.StatusCode == http.StatusUnauthorized || failed.StatusCode == http.StatusForbidden) {
		hint, retryable = "check user, password and access_token of the warehouse", false
	}
	e := fault.New(fault.WarehouseDown, "no connection to Trino at %s as %s: %s", w.place, w.options.User, reason(err)).WithHint("%s", hint)
	e.Retryable = retryable
	return e
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
