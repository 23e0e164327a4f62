package sql

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/trino"
)

// onTrino is the server that $ETL_CRAFT_TEST_TRINO names. Its plans lie in schemas that all tests share, so that they are
// made one after the other, and fewer: what is refused before any statement is refused alike everywhere.
func onTrino(t *testing.T) []backend {
	address := os.Getenv("ETL_CRAFT_TEST_TRINO")
	if address == "" {
		if os.Getenv("CI") == "true" {
			t.Error("ETL_CRAFT_TEST_TRINO names no Trino server")
		}
		t.Log("without Trino: ETL_CRAFT_TEST_TRINO names no server")
		return nil
	}
	return []backend{{
		name: "trino", alone: true,
		open: func(t *testing.T) (warehouses.Warehouse, func(string) string, record) { return openTrino(t, address) },
		own:  strings.NewReplacer("TIMESTAMP'", "TIMESTAMP '", " AS TIMESTAMP)", " AS TIMESTAMP(6))").Replace,
		runs: func(name string) bool {
			if name == "create_table/loses_index" || name == "overwrite_table/converted" {
				return false
			}
			return !strings.Contains(name, "/refused_") || name == "create_table/refused_view" || name == "create_table/refused_missing_source"
		},
	}}
}

func openTrino(t *testing.T, address string) (warehouses.Warehouse, func(string) string, record) {
	t.Helper()
	o, err := trino.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	statements := &statementsSent{}
	server := httptest.NewServer(statements.passOn(net.JoinHostPort(o.Host, strconv.Itoa(o.Port))))
	t.Cleanup(server.Close)
	through, err := trino.ParseAddress(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port = through.Host, through.Port
	w, err := trino.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	empty := func() {
		own, err := trino.Open(o)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = own.Close() }()
		s, err := own.Session(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = s.Close() }()
		for _, schema := range []string{"raw", "sales"} {
			if _, err := s.Exec(context.Background(), warehouses.SQL("DROP SCHEMA IF EXISTS "+schema+" CASCADE")); err != nil {
				t.Error(err)
			}
		}
	}
	empty()
	t.Cleanup(empty)
	return w, func(text string) string { return text }, statements.record
}

// statementsSent stands between the driver and Trino and keeps the statements that pass. The answers to them come directly,
// from where the server says they are.
type statementsSent struct {
	mu  sync.Mutex
	all []string
}

func (s *statementsSent) passOn(host string) http.Handler {
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: host})
		r.Out.Host = host
	}}
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.Method == http.MethodPost && in.URL.Path == "/v1/statement" {
			body, err := io.ReadAll(in.Body)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.all = append(s.all, string(body))
			s.mu.Unlock()
			in.Body = io.NopCloser(bytes.NewReader(body))
		}
		to.ServeHTTP(out, in)
	})
}

func (s *statementsSent) record(_ *testing.T, _ warehouses.Warehouse, do func()) []string {
	s.mu.Lock()
	s.all = nil
	s.mu.Unlock()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
