package duckdbiceberg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

var schemaNumber atomic.Int64

func connect(t *testing.T, w warehouses.Warehouse) *sessionUnderTest {
	t.Helper()
	s, err := w.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &sessionUnderTest{t, s}
}

type sessionUnderTest struct {
	*testing.T
	warehouses.Session
}

func (s *sessionUnderTest) do(statements ...string) {
	s.Helper()
	for _, text := range statements {
		if _, err := s.Exec(context.Background(), warehouses.SQL(text)); err != nil {
			s.Fatalf("%s: %v", text, err)
		}
	}
}

func (s *sessionUnderTest) number(query string) int64 {
	s.Helper()
	n, err := s.Int(s.Context(), warehouses.SQL(query))
	if err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return n
}

func (s *sessionUnderTest) begin() {
	s.Helper()
	if err := s.Begin(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// schema is one of the test's own, which it makes, and drops when its tables are gone.
func schema(t *testing.T, o Options, tables ...string) string {
	t.Helper()
	name := fmt.Sprintf("ice_%x_%d", time.Now().UnixNano(), schemaNumber.Add(1))
	connect(t, open(t, o)).do("CREATE SCHEMA " + name)
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer func() { _ = w.Close() }()
		s, err := w.Session(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = s.Close() }()
		for _, table := range tables {
			if _, err := s.Exec(context.Background(), warehouses.SQL("DROP TABLE IF EXISTS "+name+"."+table)); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Exec(context.Background(), warehouses.SQL("DROP SCHEMA "+name)); err != nil {
			t.Error(err)
		}
	})
	return name
}

// between stands between DuckDB and the catalog and does something else with commits.
type between struct {
	*httptest.Server
	commits atomic.Int64
	commit  atomic.Pointer[func(forward http.Handler, w http.ResponseWriter, r *http.Request)]
}

func newBetween(t *testing.T, o *Options) *between {
	t.Helper()
	to, err := url.Parse(o.CatalogURI)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{}
	forward := httputil.NewSingleHostReverseProxy(to)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other := b.commit.Load()
		if other == nil || !strings.HasSuffix(r.URL.Path, "/transactions/commit") {
			forward.ServeHTTP(w, r)
			return
		}
		b.commits.Add(1)
		(*other)(forward, w, r)
	}))
	t.Cleanup(b.Close)
	o.TokenURL = o.CatalogURI + "/v1/oauth/tokens"
	o.CatalogURI = b.URL
	return b
}

func lost(forward http.Handler, _ http.ResponseWriter, r *http.Request) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func answers(code int) func(http.Handler, http.ResponseWriter, *http.Request) {
	return func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"no","type":"%d","code":%[1]d}}`, code)
	}
}

// TestCommitWithoutAnswer: a commit is sent once, and what became of one without a clear answer is unknown. DuckDB's own
// repetition would report a conflict with itself.
func TestCommitWithoutAnswer(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	b := newBetween(t, &o)
	s := connect(t, open(t, o))
	s.do("CREATE TABLE " + name + ".t (i INTEGER)")
	rows := int64(0)
	for what, c := range map[string]struct {
		answer func(http.Handler, http.ResponseWriter, *http.Request)
		adds   int64
		code   fault.Code
	}{
		"the answer is lost": {lost, 1, fault.CommitUnknown},
		"500":                {answers(500), 0, fault.CommitUnknown},
		"502":                {answers(502), 0, fault.CommitUnknown},
		"503":                {answers(503), 0, fault.CommitUnknown},
		"504":                {answers(504), 0, fault.CommitUnknown},
		"403":                {answers(403), 0, fault.StatementFailed},
		"409":                {answers(409), 0, fault.WriteConflict},
	} {
		b.commits.Store(0)
		b.commit.Store(&c.answer)
		s.begin()
		s.do("INSERT INTO " + name + ".t VALUES (1)")
		err := s.Commit(t.Context())
		b.commit.Store(nil)
		rows += c.adds
		if !fault.Has(err, c.code) {
			t.Errorf("%s: %v, want %s", what, err, c.code)
		}
		if n := b.commits.Load(); n != 1 {
			t.Errorf("%s: the commit was sent %d times", what, n)
		}
		if err := s.Rollback(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := s.number("SELECT count(*) FROM " + name + ".t"); n != rows {
			t.Errorf("%s: %d row(s), want %d", what, n, rows)
		}
	}
}

// TestCommitIsNotInterrupted: it ends as it would have, and says so.
func TestCommitIsNotInterrupted(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	b := newBetween(t, &o)
	s := connect(t, open(t, o))
	s.do("CREATE TABLE " + name + ".t (i INTEGER)")
	ctx, cancel := context.WithCancel(t.Context())
	slow := func(forward http.Handler, w http.ResponseWriter, r *http.Request) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		forward.ServeHTTP(w, r)
	}
	b.commit.Store(&slow)
	s.begin()
	s.do("INSERT INTO " + name + ".t VALUES (1)")
	if err := s.Commit(ctx); err != nil || ctx.Err() == nil {
		t.Errorf("the commit: %v, the context: %v", err, ctx.Err())
	}
	b.commit.Store(nil)
	if n := s.number("SELECT count(*) FROM " + name + ".t"); n != 1 {
		t.Errorf("%d row(s)", n)
	}
}

// TestCatalogGoneBeforeTheCommit: nothing was sent, so the task may be tried again.
func TestCatalogGoneBeforeTheCommit(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	b := newBetween(t, &o)
	s := connect(t, open(t, o))
	s.do("CREATE TABLE " + name + ".t (i INTEGER)")
	s.begin()
	s.do("INSERT INTO " + name + ".t VALUES (1)")
	b.CloseClientConnections()
	_ = b.Listener.Close()
	err := s.Commit(t.Context())
	if !fault.Has(err, fault.WarehouseDown) || !fault.As(err).Retryable {
		t.Errorf("got %v", err)
	}
}

// TestWritersOfOneTable: whoever comes second is told, and no change is lost or made twice.
func TestWritersOfOneTable(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	connect(t, open(t, o)).do("CREATE TABLE "+name+".t (i BIGINT)", "INSERT INTO "+name+".t VALUES (0)")
	const writers, each = 3, 4
	var conflicts atomic.Int64
	failed := make(chan error, writers)
	for range writers {
		s := connect(t, open(t, o)) // as in a process of its own
		go func() {
			failed <- func() error {
				for done := 0; done < each; {
					if err := s.Begin(t.Context()); err != nil {
						return err
					}
					_, err := s.Exec(t.Context(), warehouses.SQL("INSERT INTO "+name+".t SELECT max(i) + 1 FROM "+name+".t"))
					if err == nil {
						err = s.Commit(t.Context())
					}
					switch {
					case err == nil:
						done++
					case !fault.Has(err, fault.WriteConflict) || !fault.As(err).Retryable:
						return err
					default:
						conflicts.Add(1)
						if err := s.Rollback(); err != nil {
							return err
						}
					}
				}
				return nil
			}()
		}()
	}
	for range writers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	s := connect(t, open(t, o))
	if n := s.number("SELECT count(*) FROM (SELECT i FROM " + name + ".t GROUP BY i)"); n != writers*each+1 {
		t.Errorf("%d numbers, want %d", n, writers*each+1)
	}
	if n := s.number("SELECT max(i) FROM " + name + ".t"); n != writers*each {
		t.Errorf("the highest is %d, want %d", n, writers*each)
	}
	if conflicts.Load() == 0 {
		t.Error("no writers met")
	}
}

// TestSecretsStayOut of errors, with quotes in them or without, and errors name what to do.
func TestSecretsStayOut(t *testing.T) {
	o := server(t)
	const secret = "hu'sh\"hush\\"
	for what, c := range map[string]struct {
		change func(*Options)
		hint   string
	}{
		"client_secret": {func(o *Options) { o.ClientSecret = secret }, "client_secret"},
		"token":         {func(o *Options) { o.ClientID, o.ClientSecret, o.Token = "", "", secret }, "warehouse.token"},
		"token_url":     {func(o *Options) { o.ClientSecret, o.TokenURL = secret, "http://127.0.0.1:1/tokens" }, "token_url"},
		"catalog_uri": {func(o *Options) {
			o.ClientID, o.ClientSecret, o.Token, o.CatalogURI = "", "", secret, "http://127.0.0.1:1"
		}, "catalog_uri"},
		"extension_dir": {func(o *Options) { o.ExtensionDir, o.S3Secret = t.TempDir(), secret }, "put httpfs, iceberg and avro of DuckDB v1."},
	} {
		own := o
		c.change(&own)
		_, err := open(t, own).Facts(t.Context())
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		if !fault.Has(err, fault.WarehouseDown) || !strings.Contains(fault.As(err).Hint, c.hint) {
			t.Errorf("%s: %v, hint %q", what, err, fault.As(err).Hint)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "hush") || strings.Contains(fault.As(e).Hint, "hush") {
				t.Errorf("%s: the error holds a secret: %v", what, e)
			}
		}
	}
}

func TestWrongKeyOfTheObjectStore(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	o.S3Secret = "hush'hush"
	s := connect(t, open(t, o))
	s.do("CREATE TABLE " + name + ".t (i INTEGER)")
	_, err := s.Exec(t.Context(), warehouses.SQL("INSERT INTO "+name+".t VALUES (1)"))
	e := fault.As(err)
	if !fault.Has(err, fault.StatementFailed) || e.Retryable || !strings.Contains(e.Hint, "s3_key_id") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v, hint %q, retryable %t", err, e.Hint, e.Retryable)
	}
}

// TestSchemaOfAnother: DuckDB believes for good that a schema is not there, once it has looked for a table in it.
func TestSchemaOfAnother(t *testing.T) {
	o := server(t)
	w := open(t, o)
	s := connect(t, w)
	name := fmt.Sprintf("ice_%x_late", time.Now().UnixNano())
	at := warehouses.QualifiedName{Database: s.Facts().Database, Schema: name, Table: "t"}
	if table, err := s.Table(t.Context(), at); table != nil || err != nil {
		t.Fatal(table, err)
	}
	s.do("CREATE SCHEMA IF NOT EXISTS "+name, "CREATE TABLE "+name+".t (i INTEGER)", "DROP TABLE "+name+".t", "DROP SCHEMA "+name)
	if _, err := s.Describe(t.Context(), warehouses.SQL("SELECT * FROM "+name+".u")); err == nil {
		t.Fatal("there is a table")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	connect(t, open(t, o)).do("CREATE SCHEMA "+name, "CREATE TABLE "+name+".u AS SELECT 1 AS i")
	again := connect(t, w)
	if n := again.number("SELECT count(*) FROM " + name + ".u"); n != 1 {
		t.Errorf("%d row(s)", n)
	}
	again.do("DROP TABLE "+name+".u", "DROP SCHEMA "+name)
}

func TestCancelLeavesTheSessionUsable(t *testing.T) {
	s := connect(t, open(t, server(t)))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Int(ctx, "SELECT count(*) FROM range(1000000) AS a(i), range(1000000) AS b(j) WHERE i + j = 7")
	if !fault.Has(err, fault.TaskCancelled) {
		t.Errorf("got %v", err)
	}
	if n := s.number("SELECT 1"); n != 1 {
		t.Error(n)
	}
}

func TestFacts(t *testing.T) {
	o := server(t)
	f, err := open(t, o).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.CatalogURI += "/"
	same, err := open(t, o).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.Database != "lake" || f.User != o.ClientID || f != same || !strings.HasPrefix(f.Identity, "iceberg:") || !strings.HasSuffix(f.Identity, "/"+o.Warehouse) {
		t.Errorf("%+v and %+v", f, same)
	}
}

// TestSpillsOutsideTheWorkingDirectory: and leaves nothing.
func TestSpillsOutsideTheWorkingDirectory(t *testing.T) {
	o := server(t)
	t.Setenv("TMPDIR", t.TempDir())
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, w)
	rows, err := s.Rows(t.Context(), "SELECT current_setting('temp_directory'), current_setting('TimeZone')", 1)
	if err != nil || !strings.HasPrefix(rows[0][0], os.Getenv("TMPDIR")) || rows[0][1] != "UTC" {
		t.Errorf("%v, %v", rows, err)
	}
	if err := errors.Join(s.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
