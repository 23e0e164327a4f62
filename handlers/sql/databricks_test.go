package sql

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/databricks"
)

// ofProcess ends the names of the schemas that this process works in.
var ofProcess = fmt.Sprintf("_etl%x", time.Now().UnixNano())

// onDatabricks is the server that $ETL_CRAFT_TEST_DATABRICKS names. Its tests share two schemas, so they run one
// after the other, and a statement takes long there, so they are fewer: what is refused before any statement
// is refused alike everywhere.
func onDatabricks(t *testing.T) []backend {
	if os.Getenv("ETL_CRAFT_TEST_DATABRICKS") == "" {
		if os.Getenv("CI") == "true" {
			t.Error("ETL_CRAFT_TEST_DATABRICKS names no Databricks server")
		}
		t.Log("without Databricks: ETL_CRAFT_TEST_DATABRICKS names no server")
		return nil
	}
	return []backend{{
		name:  "databricks",
		alone: true,
		open:  openDatabricks,
		own: strings.NewReplacer("VARCHAR", "STRING", "it''s", `it\'s`, "raw.", "raw"+ofProcess+".", "sales.", "sales"+ofProcess+".",
			"SCHEMA raw", "SCHEMA raw"+ofProcess, "SCHEMA sales", "SCHEMA sales"+ofProcess).Replace,
		runs: func(name string) bool {
			if flag.Lookup("whole").Value.String() != "true" {
				return slices.Contains([]string{"append_table/first_run", "scd1_merge/dedupe", "scd2_merge/first_run", "delete_rows/soft"}, name)
			}
			switch name {
			case "create_table/loses_index", "overwrite_table/converted", "scd1_merge/rerun", "scd2_merge/rerun":
				return false
			}
			return !strings.Contains(name, "/refused_") || name == "create_table/refused_view" || name == "create_table/refused_missing_source"
		},
	}}
}

// kept is a warehouse that no test closes: open-source Spark takes half a minute to end a session.
type kept struct{ warehouses.Warehouse }

func (kept) Close() error { return nil }

var throughWire = sync.OnceValues(func() (warehouses.Warehouse, *thriftWire) {
	address := os.Getenv("ETL_CRAFT_TEST_DATABRICKS")
	o, err := databricks.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	through := newThriftWire(address)
	o.Host, o.Port = through.server.URL, 0
	w, err := databricks.Open(o)
	if err != nil {
		panic(err)
	}
	return kept{w}, through
})

func openDatabricks(t *testing.T) (warehouses.Warehouse, func(string) string, record) {
	t.Helper()
	w, through := throughWire()
	empty := func() {
		s, err := w.Session(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = s.Close() }()
		for _, schema := range []string{"raw", "sales"} {
			if _, err := s.Exec(context.Background(), warehouses.SQL("DROP SCHEMA IF EXISTS "+schema+ofProcess+" CASCADE")); err != nil {
				t.Error(err)
			}
		}
	}
	empty()
	t.Cleanup(empty)
	facts, err := w.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w, strings.NewReplacer(ofProcess, "", "'"+facts.User+"'", "'<user>'").Replace, through.record
}

// thriftWire stands between the driver and Databricks and keeps the statements that pass.
type thriftWire struct {
	server *httptest.Server

	mu         sync.Mutex
	statements []string
}

// newThriftWire lasts as long as the process.
func newThriftWire(address string) *thriftWire {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: u.Scheme, Host: u.Host})
	w := &thriftWire{}
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return
		}
		if text, ok := statementIn(body); ok {
			w.mu.Lock()
			w.statements = append(w.statements, text)
			w.mu.Unlock()
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
		to.ServeHTTP(out, in)
	}))
	return w
}

// statementIn finds the text in a call of ExecuteStatement: the string that is field 2 of its request, behind the structure
// with the session's handle, whose last field is the version of the protocol.
func statementIn(body []byte) (string, bool) {
	if !bytes.Contains(body[:min(len(body), 40)], []byte("ExecuteStatement")) {
		return "", false
	}
	for from := 0; ; {
		i := bytes.Index(body[from:], []byte{11, 0, 2})
		if i < 0 || len(body) < from+i+7 {
			return "", false
		}
		from += i + 7
		length := int(binary.BigEndian.Uint32(body[from-4:]))
		if from+length < len(body) && body[from-8] == 0 && length > 6 && length != 16 { // the handle's secret has 16 bytes
			return string(body[from : from+length]), true
		}
	}
}

func (w *thriftWire) record(_ *testing.T, _ warehouses.Warehouse, do func()) []string {
	w.mu.Lock()
	w.statements = nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.statements)
}

// TestLengthsOnDatabricks: a SELECT there cannot have the type of a column with a length. Open-source Spark describes the column as
// a string too.
func TestLengthsOnDatabricks(t *testing.T) {
	for _, on := range onDatabricks(t) {
		b := newBench(t, on)
		b.exec(rawStatements...)
		b.run(setupOver)
		b.exec("ALTER TABLE sales.orders ADD COLUMN short varchar(3)")
		short := func(text string) taskParams {
			return overwrite.with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", "SELECT o.*, CAST('"+text+"' AS varchar(3)) AS short FROM ("+orders+"\n) AS o")
		}
		b.run(short("abc"))
		_, err := Handler{}.Run(context.Background(), b.env, b.attempt(short("abcd")))
		wantFault(t, err, fault.StatementFailed)
		_, err = Handler{}.Run(context.Background(), b.env, b.attempt(overwrite.with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", "SELECT o.*, 1 AS short FROM ("+orders+"\n) AS o")))
		wantFault(t, err, fault.TypeChanged, "short")
	}
}
