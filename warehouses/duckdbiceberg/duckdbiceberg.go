package duckdbiceberg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"

	driverduckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
)

// Options say where the catalog and the object store are, and how to sign in.
type Options struct {
	CatalogURI string // of the REST catalog
	Warehouse  string // of the catalog
	Catalog    string // its name in SQL

	Token                            string // for the catalog; or
	ClientID, ClientSecret, TokenURL string // where a token comes from; without any of them the catalog asks nobody
	S3Endpoint, S3Region, S3URLStyle string
	S3UseSSL                         bool
	S3KeyID, S3Secret                string // "" looks where AWS's own programs do
	ExtensionDir                     string // "" is DuckDB's own
	Threads                          int    // 0 is DuckDB's choice
	MemoryLimit                      string // "" is DuckDB's choice
}

// ParseAddress reads options from http(s)://host:port?warehouse=…&client_id=…&s3_endpoint=…, whose store is asked by path
// and without TLS.
func ParseAddress(address string) (Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Options{}, fault.New(fault.ConfigInvalid, "the address of the Iceberg catalog cannot be read") // the reason would repeat its secrets
	}
	q := u.Query()
	u.RawQuery = ""
	return Options{
		CatalogURI: u.String(), Warehouse: q.Get("warehouse"), Catalog: "lake", ClientID: q.Get("client_id"), ClientSecret: q.Get("client_secret"),
		S3Endpoint: q.Get("s3_endpoint"), S3Region: q.Get("s3_region"), S3URLStyle: "path", S3KeyID: q.Get("s3_key_id"), S3Secret: q.Get("s3_secret"),
		ExtensionDir: q.Get("extension_dir"),
	}, nil
}

// warehouse has an instance of DuckDB, in memory and with the catalog attached, for each session: sessions that share one
// bring the process down when one lists tables that another drops (seen with 1.5.5).
type warehouse struct {
	options Options

	mu     sync.Mutex
	idle   []*instance
	facts  *warehouses.Facts
	closed bool
}

// idleInstances is how many are kept for sessions to come.
const idleInstances = 2

// instance is one DuckDB in memory. What it has learnt of the catalog, such as that a schema does not exist, it believes as
// long as it lives, so one that may be wrong is not used again.
type instance struct {
	db      *sql.DB
	spill   string // folder for what does not fit into memory
	ready   bool   // the catalog is attached
	retired bool
}

// Open prepares access to the catalog; the first session connects.
func Open(o Options) (warehouses.Warehouse, error) {
	o.CatalogURI = strings.TrimRight(o.CatalogURI, "/")
	if _, err := url.Parse(o.CatalogURI); err != nil {
		return nil, fault.New(fault.ConfigInvalid, "warehouse.catalog_uri is no URL").WithHint("write it as https://host/path")
	}
	for _, kept := range []string{"memory", "system", "temp"} {
		if strings.EqualFold(o.Catalog, kept) {
			return nil, fault.New(fault.ConfigInvalid, "DuckDB keeps the name %s for itself, so no catalog can have it", o.Catalog).WithHint("change warehouse.catalog")
		}
	}
	return &warehouse{options: o}, nil
}

func (w *warehouse) Dialect() *warehouses.Dialect { return Dialect }

func (w *warehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	return warehouses.FactsOf(ctx, w, known)
}

func (w *warehouse) Session(ctx context.Context) (warehouses.Session, error) {
	in, err := w.acquire()
	if err != nil {
		return nil, err
	}
	conn, err := in.db.Conn(ctx)
	if err != nil {
		in.retired = true
		w.release(in)
		return nil, w.unreachable(ctx, err)
	}
	s := &session{w: w, in: in}
	s.Session = &duckdb.Session{Conn: conn, Classify: s.classify, Released: func() { w.release(in) }}
	if s.Learned, err = w.learn(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (w *warehouse) acquire() (*instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fault.New(fault.WarehouseDown, "the warehouse was closed")
	}
	if n := len(w.idle); n > 0 {
		in := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return in, nil
	}
	return w.start()
}

func (w *warehouse) release(in *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.retired || w.closed || len(w.idle) == idleInstances {
		_ = in.stop()
		return
	}
	w.idle = append(w.idle, in)
}

func (w *warehouse) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	var errs []error
	for _, in := range w.idle {
		errs = append(errs, in.stop())
	}
	w.idle = nil
	return errors.Join(errs...)
}

func (in *instance) stop() error {
	return errors.Join(in.db.Close(), os.RemoveAll(in.spill))
}

// start makes an instance; its first connection attaches the catalog.
func (w *warehouse) start() (*instance, error) {
	spill, err := os.MkdirTemp("", "etl-craft-duckdb-")
	if err != nil {
		return nil, fault.New(fault.WarehouseDown, "DuckDB has no folder for what does not fit into memory: %w", err).WithHint("look at TMPDIR")
	}
	in := &instance{spill: spill}
	q := url.Values{
		"temp_directory":               {spill}, // of its own accord it would be in the working directory
		"autoinstall_known_extensions": {"false"}, "allow_persistent_secrets": {"false"},
	}
	if w.options.ExtensionDir != "" {
		q.Set("extension_directory", w.options.ExtensionDir)
	}
	if w.options.Threads > 0 {
		q.Set("threads", fmt.Sprint(w.options.Threads))
	}
	if w.options.MemoryLimit != "" {
		q.Set("memory_limit", w.options.MemoryLimit)
	}
	connector, err := driverduckdb.NewConnector("?"+q.Encode(), func(c driver.ExecerContext) error {
		return w.setUp(in, c)
	})
	if err != nil {
		_ = os.RemoveAll(spill)
		return nil, w.unreachable(context.Background(), err)
	}
	in.db = sql.OpenDB(connector)
	return in, nil
}

// setUp readies a connection, and with the first one the instance.
func (w *warehouse) setUp(in *instance, c driver.ExecerContext) error {
	run := func(statements ...string) error {
		for _, s := range statements {
			if _, err := c.ExecContext(context.Background(), s, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := run("SET TimeZone = 'UTC'"); err != nil {
		return err
	}
	if !in.ready {
		if err := run(w.options.attach()...); err != nil {
			return err
		}
		in.ready = true
	}
	return run("USE " + string(Dialect.Ident(w.options.Catalog)))
}

// attach are the statements that make the catalog a database of an instance.
func (o Options) attach() []string {
	text := func(s string) string { return string(Dialect.Text(s)) }
	statements := []string{"LOAD httpfs", "LOAD iceberg"}
	store := "CREATE OR REPLACE SECRET etl_craft_s3 (TYPE s3"
	if o.S3KeyID != "" {
		store += ", KEY_ID " + text(o.S3KeyID) + ", SECRET " + text(o.S3Secret)
	} else {
		statements = append(statements, "LOAD aws")
		store += ", PROVIDER credential_chain"
	}
	if o.S3Endpoint != "" {
		store += ", ENDPOINT " + text(o.S3Endpoint)
	}
	if o.S3Region != "" {
		store += ", REGION " + text(o.S3Region)
	}
	store += ", URL_STYLE " + text(o.S3URLStyle) + fmt.Sprintf(", USE_SSL %t)", o.S3UseSSL)
	statements = append(statements, store)

	attach := "ATTACH IF NOT EXISTS " + text(o.Warehouse) + " AS " + string(Dialect.Ident(o.Catalog)) +
		" (TYPE iceberg, ENDPOINT " + text(o.CatalogURI) + ", DEFAULT_SCHEMA " + text(defaultSchema) + ", ACCESS_DELEGATION_MODE 'none'"
	const secret = "CREATE OR REPLACE SECRET etl_craft_catalog (TYPE iceberg, "
	switch {
	case o.Token != "":
		statements = append(statements, secret+"TOKEN "+text(o.Token)+")")
		attach += ", SECRET etl_craft_catalog)"
	case o.ClientID != "":
		from := o.TokenURL
		if from == "" {
			from = o.CatalogURI + "/v1/oauth/tokens"
		}
		statements = append(statements, secret+"CLIENT_ID "+text(o.ClientID)+", CLIENT_SECRET "+text(o.ClientSecret)+", OAUTH2_SERVER_URI "+text(from)+")")
		attach += ", SECRET etl_craft_catalog)"
	default:
		attach += ", AUTHORIZATION_TYPE 'none')"
	}
	return append(statements, attach)
}

// unseen is a schema that no catalog has. Asking for it shows whether the catalog answers this user at all, which lists of
// what there is do not.
const unseen = "etl_craft_no_such_schema"

func (w *warehouse) learn(ctx context.Context, s *session) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var f warehouses.Facts
	rows, err := s.Rows(ctx, "SELECT current_database(), session_user, version()", 1)
	if err != nil {
		return f, err
	}
	f.Database, f.User, f.Version = rows[0][0], rows[0][1], rows[0][2]
	if w.options.ClientID != "" {
		f.User = w.options.ClientID
	}
	at, err := url.Parse(w.options.CatalogURI)
	if err != nil {
		return f, w.unreachable(ctx, err)
	}
	f.Identity = "iceberg:" + strings.ToLower(at.Host) + at.Path + "/" + w.options.Warehouse
	database := Dialect.Ident(w.options.Catalog)
	_, err = s.Rows(ctx, "SELECT count(*) FROM iceberg_schema_properties("+database+"."+Dialect.Ident(unseen)+")", 1)
	if err != nil && refused(err) {
		return f, w.unreachable(ctx, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = &f
	return f, nil
}
