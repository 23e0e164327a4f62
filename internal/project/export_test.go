package project_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/project"
)

// graph has the rows that a pipeline file declares.
func graph(p store.DesiredPipeline) *store.Graph {
	g := &store.Graph{Pipeline: store.Pipeline{Code: p.Code, Name: p.Name, Description: p.Description, RefreshType: p.RefreshType,
		Schedule: p.Schedule, Timezone: p.Timezone, SLAHours: p.SLAHours, Notifications: p.Notifications, Active: true, Origin: p.Origin}}
	for _, e := range p.DependsOn {
		g.DependsOn = append(g.DependsOn, store.PipelineEdge{PipelineCode: e.Pipeline, Type: e.Type, Match: e.Match, ConsumeRepairs: e.ConsumeRepairs})
	}
	for _, d := range p.Tasks {
		task := store.Task{Code: d.Code, Type: d.Type, PipelineCode: p.Code, Handler: d.Handler, RunCondition: d.RunCondition, ConditionCount: d.ConditionCount, Params: d.Params}
		for _, e := range d.DependsOn {
			other := e.Pipeline
			if other == "" {
				other = p.Code
			}
			task.DependsOn = append(task.DependsOn, store.TaskEdge{PipelineCode: other, TaskCode: e.Task, Type: e.Type, Match: e.Match, ConsumeRepairs: e.ConsumeRepairs})
		}
		g.Tasks = append(g.Tasks, task)
	}
	return g
}

// roundTrip exports a pipeline and loads what was written.
func roundTrip(t *testing.T, p store.DesiredPipeline) {
	t.Helper()
	dir := t.TempDir()
	paths, err := project.Export(filepath.Join(dir, "pipelines"), []*store.Graph{graph(p)})
	if err != nil {
		t.Fatalf("%v\n%#v", err, p)
	}
	got, problems := project.Load(dir)
	if len(problems) > 0 || len(got) != 1 {
		t.Fatalf("%v", yamlfile.Lines(problems))
	}
	got[0].Origin, p.Origin = "", ""
	if diff := cmp.Diff(p, got[0]); diff != "" {
		text, _ := os.ReadFile(paths[0])
		t.Fatalf("%s\n%s", diff, text)
	}
}

// TestRoundTrip exports and loads pipelines with texts that YAML has trouble with.
func TestRoundTrip(t *testing.T) {
	pieces := []string{"a", "SELECT 1", "\n", "\n\n", " ", "  ", "\t", "'", `"`, "#", ": ", "- ", "|", "{", "}", "[", "]", ",", "&", "*", "!", "%", "@", "`", "\\", "$$x",
		"é", "😀", "\u0085", "\u2028", "\ufeff", "\r", "\x01", "\x7f", "~", "null", "yes", "on", "1.0", "0x1", "1e3", "2026-09-01", "<<", "=", "---", "...", "?", ">", strings.Repeat("long ", 40)}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		text := func() string {
			var b strings.Builder
			for range r.IntN(6) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
			return b.String()
		}
		code := func() string {
			return pick("yes", "NULL", "on", "A", "b_1", "True", "E5", "n", strings.Repeat("x", 128)) + pick("", "_", "2")
		}
		p := store.DesiredPipeline{Code: pick("P", "null", "Yes"), Name: text(), Description: text(), RefreshType: pick("FULL", "INCREMENTAL"), Schedule: text(), Timezone: text()}
		if r.IntN(2) == 0 {
			hours := r.ExpFloat64() + 0.001
			p.SLAHours = &hours
			p.Notifications = store.Subscriptions{"ops": {"FAILED", "SLA_BREACHED"}, "a b: c": {}}
		}
		for i, on := range []string{"SUCCESS", "FAILURE", "ALWAYS", "HAS_DATA"} {
			if r.IntN(3) == 0 {
				p.DependsOn = append(p.DependsOn, store.DesiredPipelineEdge{Pipeline: "U" + code()[:1] + string(rune('0'+i)), Type: on, Match: pick("NEWEST", "SAME_DATE"), ConsumeRepairs: r.IntN(2) == 0})
			}
		}
		for i := range r.IntN(4) {
			task := store.DesiredTask{Code: "t" + string(rune('0'+i)), Type: pick("ETL", "INGESTION"), Handler: pick("SQL", "PYTHON", text()), RunCondition: pick("ALL", "ANY", "N"), Params: map[string]string{}}
			if task.RunCondition == "N" {
				task.ConditionCount = 1 + r.IntN(3)
			}
			for range r.IntN(5) {
				task.Params[pick("SQL_ACTION", "SOURCE_SQL", "MERGE_KEY", "X_"+code(), "yes", "1.0", "~", "a: b", "<<")] = pick(text(), text(), "a|yes|b", "true", "007", "12", "1.50", "SELECT a\n  , b\nFROM t\n")
			}
			for j, on := range []string{"SUCCESS", "HAS_DATA"} {
				if r.IntN(2) == 0 {
					task.DependsOn = append(task.DependsOn, store.DesiredTaskEdge{Pipeline: pick("", "Other"), Task: "d" + string(rune('0'+j)), Type: on, Match: pick("NEWEST", "SAME_DATE"), ConsumeRepairs: r.IntN(2) == 0})
				}
			}
			p.Tasks = append(p.Tasks, task)
		}
		roundTrip(t, p)
	}
}

func TestExportedText(t *testing.T) {
	p := mustLoad(t, documented)
	dir := filepath.Join(t.TempDir(), "new", "folder")
	paths, err := project.Export(dir, []*store.Graph{graph(p)})
	if err != nil || len(paths) != 1 || paths[0] != filepath.Join(dir, "SALES.yml") {
		t.Fatalf("%v %v", paths, err)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `pipeline: SALES
name: Daily sales
description: text
refresh_type: INCREMENTAL
schedule: 0 5 * * *
timezone: UTC
sla_hours: 2
depends_on:
  - RAW
tasks:
  - task: load_orders
    params:
      SQL_ACTION: APPEND_TABLE
      TARGET_OBJECT: staging.orders
      SOURCE_SQL_FILE: sales/orders.sql
      RUN_DATE_SUBSTITUTION: true
  - task: load_customers
    depends_on:
      - load_orders
      - {task: RAW.extract_customers, on: HAS_DATA}
    params:
      SQL_ACTION: SCD2_MERGE
      TARGET_OBJECT: sales.customers
      SOURCE_SQL: |
        SELECT customer_id, name, email FROM staging.customers WHERE $$pipeline_run_id_filter
      MERGE_KEY: customer_id
      MERGE_COMPARE_COLUMNS: [name, email]
      PIPELINE_RUN_ID_FILTER: true
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, paths[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode().Perm(), mode, err)
		}
	}
}

func TestExportKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	p := mustLoad(t, documented)
	q := store.DesiredPipeline{Code: "Q", Name: "Q", RefreshType: "FULL"}
	path := filepath.Join(dir, "SALES.yml")
	if err := os.WriteFile(path, []byte(documented), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := project.Export(dir, []*store.Graph{graph(p)}); err != nil {
		t.Fatalf("a file that says the same is refused: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != documented {
		t.Error("a file that says the same was written again")
	}

	p.Tasks[0].Params["TARGET_OBJECT"] = "staging.other"
	_, err := project.Export(dir, []*store.Graph{graph(q), graph(p)})
	if !fault.Has(err, fault.FileExists) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != documented {
		t.Error("a refused file was written")
	}
	if _, err := os.Stat(filepath.Join(dir, "Q.yml")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a refused export wrote another file")
	}
}

func TestExportRefusesWhatAFileCannotHold(t *testing.T) {
	p := store.DesiredPipeline{Code: "P", Name: "P", RefreshType: "FULL", Tasks: []store.DesiredTask{
		{Code: "t", Type: "ETL", Handler: "SQL", RunCondition: "ALL", Params: map[string]string{"X_BYTES": "\xff"}}}}
	dir := t.TempDir()
	if _, err := project.Export(dir, []*store.Graph{graph(p)}); !fault.Has(err, fault.FileInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "P.yml")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file was written")
	}
}
