package sql

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
)

// record runs do and returns the statements that the warehouse received meanwhile, in its own words.
type record func(t *testing.T, w warehouses.Warehouse, do func()) []string

// checkReceived runs the task that was planned and compares, statement by statement, what the warehouse received with
// the plan. What came before the plan's first statement may only have read.
func (b *bench) checkReceived(plan *warehouses.Plan, p taskParams, others ...taskParams) {
	b.t.Helper()
	if b.record == nil {
		return
	}
	a := b.attempt(p, others...)
	var err error
	received := b.record(b.t, b.env.Warehouse, func() { _, err = Handler{}.Run(context.Background(), b.env, a) })
	if err != nil {
		b.t.Fatalf("the task that was planned failed: %v", err)
	}
	steps := make([]string, len(received))
	for i, statement := range received {
		steps[i], received[i] = b.origin(a, statement)
	}
	for len(plan.Steps) > 0 && plan.Steps[0].Transaction == 0 && b.env.Dialect.Transactional { // comes before the transaction
		i := slices.Index(received, string(plan.Steps[0].SQL))
		if i < 0 || steps[i] != plan.Steps[0].Name {
			b.t.Fatalf("the warehouse did not receive %s", plan.Steps[0].SQL)
		}
		received, steps = slices.Delete(received, i, i+1), slices.Delete(steps, i, i+1)
		alone := *plan
		alone.Steps = plan.Steps[1:]
		plan = &alone
	}
	fill := strings.NewReplacer("<task_run_id>", fmt.Sprint(a.TaskRunID), "<token>", a.Token, "<pipeline_run_id>", fmt.Sprint(a.PipelineRunID),
		"<now>", string(b.env.Dialect.Instant(a.Instant)))
	begin := 0
	for i, statement := range received {
		if statement == "BEGIN" || statement == "BEGIN TRANSACTION" {
			begin = i
		}
	}
	if !b.env.Dialect.Transactional {
		if begin = slices.IndexFunc(steps, func(step string) bool { return step != "" && step != "inspect" }); begin < 0 {
			begin = len(steps)
		}
	}
	for i, statement := range received[:begin] {
		word, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
		word, _, _ = strings.Cut(word, "\n")
		opens := []string{"SET", "ATTACH", "USE", "DISCARD", "--"}
		reads := []string{"SELECT", "WITH", "DECLARE", "BEGIN", "ROLLBACK", "DESCRIBE", "SHOW", "EXPLAIN"}
		if steps[i] != "inspect" && (slices.Contains(reads[:3], word) || steps[i] != "") {
			b.t.Errorf("before the plan the step is %q, of %s", steps[i], statement)
		}
		if !slices.Contains(append(opens, reads...), word) && strings.TrimSpace(statement) != "" {
			b.t.Errorf("before the plan the warehouse received %s", statement)
		}
	}
	var planned, run []string
	end := begin
	switch {
	case len(plan.Steps) == 0:
	case !b.env.Dialect.Transactional:
		run, steps = append(run, received[begin:]...), steps[begin:]
	default:
		run = received[begin+1:]
		end = slices.Index(run, "COMMIT")
		if end < 0 {
			b.t.Fatalf("no COMMIT in %q", run)
		}
		if steps = steps[begin:]; steps[0] != "begin" || steps[end+1] != "commit" {
			b.t.Errorf("the transaction begins at step %q and ends at %q", steps[0], steps[end+1])
		}
		steps = steps[1:]
		for _, later := range run[end+1:] {
			if later != "ROLLBACK" && later != "DISCARD ALL" {
				b.t.Errorf("after the plan the warehouse received %s", later)
			}
		}
		run = run[:end]
	}
	for _, step := range plan.Steps {
		statement := fill.Replace(string(step.SQL))
		if len(step.OnlyIf) > 0 && !slices.Contains(run, statement) {
			continue // its count was 0
		}
		if n := len(planned); n < len(run) && steps[n] != step.Name {
			b.t.Errorf("the warehouse received step %q as %q", step.Name, steps[n])
		}
		planned = append(planned, statement)
	}
	if diff := cmp.Diff(planned, run); diff != "" {
		b.t.Errorf("what was planned (-) is not what the warehouse received (+):\n%s", diff)
	}
}

var comment = regexp.MustCompile(`^/\* etl-craft pipeline_run_id=(\d+) task_run_id=(\d+) step=([^*]*) \*/\n`)

// origin takes the comment off a statement that an attempt sent, and returns its step, "" where there is no comment.
func (b *bench) origin(a *handlers.Attempt, statement string) (step, bare string) {
	b.t.Helper()
	m := comment.FindStringSubmatch(statement)
	if m == nil {
		return "", statement
	}
	if m[1] != fmt.Sprint(a.PipelineRunID) || m[2] != fmt.Sprint(a.TaskRunID) {
		b.t.Errorf("run %d and task run %d sent %s", a.PipelineRunID, a.TaskRunID, statement)
	}
	return m[3], statement[len(m[0]):]
}

// duckdbLog lets DuckDB keep the statements itself.
func duckdbLog(t *testing.T, w warehouses.Warehouse, do func()) []string {
	t.Helper()
	ctx := context.Background()
	s, err := w.Session(ctx) // keeps the instance, and its log, alive
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Exec(ctx, "CALL enable_logging('QueryLog')"); err != nil {
		t.Fatal(err)
	}
	do()
	rows, err := s.Rows(ctx, "SELECT message FROM duckdb_logs WHERE type = 'QueryLog'", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for _, r := range rows {
		statements = append(statements, r[0])
	}
	return statements
}

// catalogLog is duckdbLog where each session has an instance of DuckDB to itself: that which was given back last is taken
// first.
func catalogLog(t *testing.T, w warehouses.Warehouse, do func()) []string {
	t.Helper()
	ctx := context.Background()
	once := func(text warehouses.SQL) [][]string {
		s, err := w.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		rows, err := s.Rows(ctx, text, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	once("CALL enable_logging('QueryLog')")
	do()
	var statements []string
	for _, r := range once("SELECT message FROM duckdb_logs WHERE type = 'QueryLog'") {
		own := []string{"BEGIN TRANSACTION", "ROLLBACK", "SET GLOBAL http_retries = 0", "RESET GLOBAL http_retries"}
		if !slices.Contains(own, r[0]) { // the extension's own, and what surrounds a COMMIT
			statements = append(statements, r[0])
		}
	}
	return statements
}

// wire stands between the driver and PostgreSQL and keeps the statements that pass.
type wire struct {
	listener net.Listener
	server   string
	links    sync.WaitGroup

	mu         sync.Mutex
	statements []string
}

// newWire ends with the test.
func newWire(t *testing.T, server string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, server: server}
	w.links.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.links.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.links.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		w.links.Go(func() {
			w.requests(client, server)
			_ = server.Close()
		})
	}
}

// requests passes on the driver's messages. The first of a connection has no type.
func (w *wire) requests(client io.Reader, server io.Writer) {
	for header := 4; ; header = 5 {
		message := make([]byte, header)
		if _, err := io.ReadFull(client, message); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint32(message[header-4:]))
		message = append(message, make([]byte, max(0, length-4))...)
		if _, err := io.ReadFull(client, message[header:]); err != nil {
			return
		}
		if header == 5 {
			w.keep(message[0], message[5:])
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// keep takes the text of a simple query, or of the Parse of an extended one.
func (w *wire) keep(kind byte, body []byte) {
	switch kind {
	case 'P': // behind the statement's name
		_, body, _ = bytes.Cut(body, []byte{0})
	case 'Q':
	default:
		return
	}
	text, _, _ := bytes.Cut(body, []byte{0})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statements = append(w.statements, string(text))
}

func (w *wire) record(_ *testing.T, _ warehouses.Warehouse, do func()) []string {
	w.mu.Lock()
	w.statements = nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.statements)
}
