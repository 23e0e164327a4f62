package sql

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/snowflake"
)

// snowflakeBackend gives each test a database of its own in the account, or the emulator, that the environment names.
func snowflakeBackend(t *testing.T) []backend {
	address := os.Getenv("ETL_CRAFT_TEST_SNOWFLAKE")
	if address == "" {
		if os.Getenv("CI") == "true" {
			t.Error("ETL_CRAFT_TEST_SNOWFLAKE names no account or emulator")
		}
		t.Log("without Snowflake: ETL_CRAFT_TEST_SNOWFLAKE names no account or emulator")
		return nil
	}
	return []backend{{name: "snowflake", open: func(t *testing.T) (warehouses.Warehouse, func(string) string, record) {
		name := fmt.Sprintf("GOLDEN_%d_%d", os.Getpid(), databases.Add(1))
		admin, err := snowflake.Open(snowflake.Options{DSN: address})
		if err != nil {
			t.Fatal(err)
		}
		s, err := admin.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run := func(statements ...warehouses.SQL) {
			for _, statement := range statements {
				if _, err := s.Exec(context.Background(), statement); err != nil {
					t.Errorf("%s: %v", statement, err)
				}
			}
		}
		run("CREATE DATABASE "+warehouses.SQL(name), "CREATE SCHEMA "+warehouses.SQL(name)+".SCRATCH")
		t.Cleanup(func() {
			run("DROP DATABASE " + warehouses.SQL(name))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		through, received := snowflakeWire(t, address)
		w, err := snowflake.Open(snowflake.Options{DSN: through, Database: name, Schema: "SCRATCH"})
		if err != nil {
			t.Fatal(err)
		}
		return w, func(text string) string { return strings.ReplaceAll(text, name, "WAREHOUSE") }, received
	}}}
}

var plainHTTP = regexp.MustCompile(`@([^/@]+:\d+)/.*protocol=http&`)

// snowflakeWire stands between the driver and the emulator and keeps the statements that pass. An account's cannot be read.
func snowflakeWire(t *testing.T, address string) (through string, received record) {
	m := plainHTTP.FindStringSubmatch(address)
	if m == nil {
		return address, nil
	}
	var mu sync.Mutex
	var statements []string
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: m[1]})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/query-request") {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			mu.Lock()
			statements = append(statements, sqlText(t, r.Header.Get("Content-Encoding"), body))
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(address, m[1], strings.TrimPrefix(server.URL, "http://"), 1), func(_ *testing.T, _ warehouses.Warehouse, do func()) []string {
		mu.Lock()
		statements = nil
		mu.Unlock()
		do()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(statements)
	}
}

func sqlText(t *testing.T, encoding string, body []byte) string {
	var reader io.Reader = bytes.NewReader(body)
	if encoding == "gzip" {
		unzipped, err := gzip.NewReader(reader)
		if err != nil {
			t.Error(err)
			return ""
		}
		reader = unzipped
	}
	var request struct {
		SQLText string `json:"sqlText"`
	}
	if err := json.NewDecoder(reader).Decode(&request); err != nil {
		t.Error(err)
	}
	return request.SQLText
}
