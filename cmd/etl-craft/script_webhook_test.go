package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// webhook NAME SECRET starts a server whose address is then in $NAME. It keeps what it is sent in received/N.json, N from
// 1, refuses what SECRET has not signed, and answers with the status in the file "answer", 204 without one.
func webhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: webhook NAME SECRET")
	}
	verifier, err := standardwebhooks.NewWebhookRaw([]byte(args[1]))
	ts.Check(err)
	folder := ts.MkAbs("received")
	ts.Check(os.MkdirAll(folder, 0o700))
	answer := ts.MkAbs("answer")
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.json", requests.Add(1))), body, 0o600)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		if text, err := os.ReadFile(answer); err == nil {
			if status, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				w.WriteHeader(status)
				return
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}
