package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

var ctx = context.Background()

// sales is a pipeline with the tasks extract and load; load waits for extract.
func sales() store.DesiredPipeline {
	return store.DesiredPipeline{
		Code: "SALES", Name: "Daily sales", RefreshType: "INCREMENTAL", Origin: "file pipelines/SALES.yml",
		Tasks: []store.DesiredTask{
			{Code: "extract", Type: "INGESTION", Handler: "SQL", Params: map[string]string{
				"SQL_ACTION": "APPEND_TABLE", "TARGET_OBJECT": "staging.orders", "X_NOTE": ""}},
			{Code: "load", Type: "ETL", Handler: "SQL", DependsOn: []store.DesiredTaskEdge{
				{Task: "extract", Type: store.OnSuccess, ConsumeRepairs: true}}},
		},
	}
}

func anything([]*store.Graph) error { return nil }

func apply(t *testing.T, s *store.Store, pipelines ...store.DesiredPipeline) store.ApplyReport {
	t.Helper()
	report, err := s.ApplyMetadata(ctx, Tester, pipelines, anything)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func graph(t *testing.T, s *store.Store, code string) *store.Graph {
	t.Helper()
	g, err := s.Graph(ctx, code)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// admitted is a run of SALES, owned by "one", with its task runs.
func admitted(t *testing.T, s *store.Store) (*store.Run, []store.TaskRun) {
	t.Helper()
	apply(t, s, sales())
	run, err := s.AdmitRun(ctx, newRun(graph(t, s, "SALES").Pipeline.ID, "manual:1"))
	if err != nil {
		t.Fatal(err)
	}
	return run, tasks(t, s, run.ID)
}

func newRun(pipelineID int64, key string) store.NewRun {
	return store.NewRun{
		PipelineID: pipelineID, Key: key, Date: "2026-09-01", Trigger: store.TriggerManual, OwnerID: "one", Actor: Tester,
	}
}

func tasks(t *testing.T, s *store.Store, runID int64) []store.TaskRun {
	t.Helper()
	list, err := s.TaskRuns(ctx, runID)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func start(t *testing.T, s *store.Store, taskRunID int64, owner string) *store.Attempt {
	t.Helper()
	a, err := s.StartAttempt(ctx, store.StartAttempt{
		TaskRunID: taskRunID, Owner: owner, Host: "h1", PID: 7, LogPath: "logs/x.log", TargetObject: "dw.staging.orders", Actor: Tester})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func finish(t *testing.T, s *store.Store, a *store.Attempt, status string) {
	t.Helper()
	err := s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: a.OwnerID, Status: status, TaskStatus: status})
	if err != nil {
		t.Fatal(err)
	}
}

func attempts(t *testing.T, s *store.Store, taskRunID int64) []store.Attempt {
	t.Helper()
	list, err := s.Attempts(ctx, taskRunID)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func run(t *testing.T, s *store.Store, id int64) *store.Run {
	t.Helper()
	r, err := s.RunByID(ctx, id)
	if err != nil || r == nil {
		t.Fatalf("run %d: %v, %v", id, r, err)
	}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Has(err, code) {
		t.Fatalf("want %s, got %v", code, err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// text shows pointers by their values.
func text(c store.Counts) string {
	s := ""
	for _, n := range []*int64{c.Source, c.Target, c.Insert, c.Update, c.Delete, c.Written} {
		if n == nil {
			s += " -"
			continue
		}
		s += fmt.Sprintf(" %d", *n)
	}
	return s[1:]
}

func sixCounts(from int64) store.Counts {
	n := [6]int64{from, from + 1, from + 2, from + 3, from + 4, from + 5}
	return store.Counts{Source: &n[0], Target: &n[1], Insert: &n[2], Update: &n[3], Delete: &n[4], Written: &n[5]}
}

func idText(id int64) string { return fmt.Sprint(id) }
