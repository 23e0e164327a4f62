package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// lines lists problems as "FAIL CODE PIPELINE.task: message".
func lines(problems []fault.Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s %s %s.%s: %s", p.Level, p.Code, p.Pipeline, p.Task, p.Message))
	}
	return strings.Join(out, "\n")
}

func TestValidateFiles(t *testing.T) {
	const head = "pipeline: SALES\nname: Sales\nrefresh_type: FULL\n"
	tests := []struct {
		name, file string
		want       []string
	}{
		{"good", head + "schedule: '0 5 * * *'\ntimezone: Europe/Vienna\ntasks: [{task: a, handler: TEST}]\n", nil},
		{"schedule", head + "schedule: '0 25 * * *'\n", []string{"FAIL SCHEDULE_INVALID SALES."}},
		{"extended schedule", head + "schedule: '@every 5m'\n", []string{"FAIL SCHEDULE_INVALID SALES."}},
		{"timezone", head + "timezone: Europe/Wien\n", []string{"FAIL SCHEDULE_INVALID SALES."}},
		{"handler", head + "tasks: [{task: a, handler: TSET}]\n", []string{`FAIL HANDLER_UNKNOWN SALES.a: no handler is named "TSET"`}},
		{"parameter", head + "tasks: [{task: a, handler: TEST, params: {RETRYS: 1}}]\n", []string{"FAIL PARAMETER_UNKNOWN SALES.a: unknown parameter RETRYS"}},
		{"cycle", head + "tasks:\n- {task: a, handler: TEST, depends_on: [c]}\n- {task: b, handler: TEST, depends_on: [a]}\n- {task: c, handler: TEST, depends_on: [b]}\n- {task: d, handler: TEST, depends_on: [a]}\n",
			[]string{"FAIL GRAPH_CYCLE SALES.a: tasks depend on each other in a circle: a waits for c waits for b waits for a"}},
		{"count", head + "tasks:\n- {task: a, handler: TEST}\n- {task: b, handler: TEST, depends_on: [a], run_condition: 2}\n", []string{"FAIL CONDITION_CANNOT_BE_MET SALES.b: run_condition asks for 2 dependencies and there are 1"}},
		{"no rows", head + "tasks:\n- {task: a, handler: TEST, params: {X_ROWS: none}}\n- {task: b, handler: TEST, depends_on: [{task: a, on: HAS_DATA}]}\n", []string{"FAIL HAS_DATA_NO_ROWS SALES.b"}},
		{"other pipeline", head + "depends_on: [{pipeline: RAW, on: SUCCESS}]\ntasks:\n- {task: a, handler: TEST, depends_on: [RAW.x]}\n", []string{
			"WARN DEPENDENCY_INVALID SALES.: the pipeline depends on RAW, which is not an active pipeline of these files",
			"WARN DEPENDENCY_INVALID SALES.a: the task depends on RAW.x, which is not an active task of these files"}},
		{"writers", head + "tasks:\n- {task: a, handler: TEST, params: {TARGET_OBJECT: s.t, TABLE_FORMAT: iceberg, MERGE_COMPARE_COLUMNS: [x, y]}}\n- {task: b, handler: TEST, params: {TARGET_OBJECT: S.T, MERGE_COMPARE_COLUMNS: [y, x]}}\n", []string{
			"FAIL WRITERS_DISAGREE SALES.b: s.t has format native here and iceberg in SALES.a",
			"FAIL WRITERS_DISAGREE SALES.b: s.t is merged by y|x here and by x|y in SALES.a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "pipelines"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "pipelines", "SALES.yml"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			e := New(Deps{Config: &config.Config{Dir: dir}, Handlers: newHandlers()})
			doc, err := e.Validate(context.Background(), ValidateRequest{Files: true})
			if (doc.Failures > 0) != fault.Has(err, fault.CheckFailed) {
				t.Errorf("error is %v with %d failures", err, doc.Failures)
			}
			got := lines(doc.Problems)
			if len(tt.want) == 0 && got != "" {
				t.Errorf("problems:\n%s", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("problems lack %q:\n%s", want, got)
				}
			}
			for _, p := range doc.Problems {
				if p.File != "pipelines/SALES.yml" || p.Line == 0 {
					t.Errorf("no place: %+v", p)
				}
			}
		})
	}
}

func TestMisshapenFile(t *testing.T) {
	b := newBench(t)
	b.apply("a:")
	b.write("pipelines/SALES.yml", "pipeline: SALES\ntaks: []\n")
	doc, err := b.engine().Validate(context.Background(), ValidateRequest{Files: true})
	wantCode(t, err, fault.CheckFailed)
	if !strings.Contains(lines(doc.Problems), "taks") {
		t.Errorf("problems:\n%s", lines(doc.Problems))
	}
	_, err = b.engine().Apply(context.Background(), false)
	wantCode(t, err, fault.MetadataInvalid)
	doc, err = b.engine().Validate(context.Background(), ValidateRequest{})
	if err != nil || doc.Failures != 0 || doc.Warnings == 0 {
		t.Errorf("rows: %v %+v", err, doc)
	}
}

func TestValidateRowsWarnsOfOtherFiles(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	doc, err := b.engine().Validate(context.Background(), ValidateRequest{Pipeline: "SALES"})
	if err != nil || len(doc.Problems) > 0 {
		t.Fatalf("%v %s", err, lines(doc.Problems))
	}
	b.write("pipelines/SALES.yml", "pipeline: SALES\nname: Sales\nrefresh_type: FULL\ntasks: [{task: a, handler: TEST, params: {X_TASK: a}}]\n")
	doc, err = b.engine().Validate(context.Background(), ValidateRequest{Pipeline: "SALES"})
	if err != nil || doc.Warnings != 1 || doc.Problems[0].Code != fault.FilesDiffer {
		t.Errorf("%v %s", err, lines(doc.Problems))
	}
	_, err = b.engine().Validate(context.Background(), ValidateRequest{Pipeline: "SELLS"})
	wantCode(t, err, fault.PipelineNotFound)
}

func TestApply(t *testing.T) {
	b := newBench(t)
	file := "pipeline: SALES\nname: Sales\nrefresh_type: FULL\ntasks:\n- {task: a, handler: TEST}\n"
	b.write("pipelines/SALES.yml", file)
	dry, err := b.engine().Apply(context.Background(), true)
	if err != nil || !dry.DryRun || len(dry.Changes) == 0 {
		t.Fatalf("%v %+v", err, dry)
	}
	if list, err := b.engine().List(context.Background()); err != nil || len(list.Pipelines) > 0 {
		t.Fatalf("a dry run changed something: %v %+v", err, list)
	}
	done, err := b.engine().Apply(context.Background(), false)
	if err != nil || len(done.Changes) != len(dry.Changes) {
		t.Fatalf("%v %+v", err, done)
	}
	if again, err := b.engine().Apply(context.Background(), false); err != nil || len(again.Changes) != 0 {
		t.Errorf("a second apply: %v %+v", err, again)
	}
	b.write("pipelines/SALES.yml", file+"- {task: b, handler: TEST, depends_on: [c]}\n- {task: c, handler: TEST, depends_on: [b]}\n- {task: d, handler: NONE}\n")
	_, err = b.engine().Apply(context.Background(), false)
	wantCode(t, err, fault.MetadataInvalid)
	if got := lines(fault.As(err).Problems); !strings.Contains(got, "GRAPH_CYCLE") || !strings.Contains(got, "HANDLER_UNKNOWN") {
		t.Errorf("problems:\n%s", got)
	}
	if got := b.value("SELECT COUNT(*) FROM CFG_TASKS"); got != "1" {
		t.Errorf("tasks: %s", got)
	}
	if got := b.value("SELECT OUTCOME || ' ' || EXIT_CODE FROM AUD_ACTIONS ORDER BY ACTION_ID DESC LIMIT 1"); got != "METADATA_INVALID 3" {
		t.Errorf("recorded command: %s", got)
	}
}

func TestExport(t *testing.T) {
	b := newBench(t)
	b.apply("a:", "b: a")
	dir := filepath.Join(b.dir, "out")
	doc, err := b.engine().Export(context.Background(), dir, false)
	if err != nil || len(doc.Files) != 1 {
		t.Fatalf("%v %+v", err, doc)
	}
	if err := os.WriteFile(filepath.Join(dir, "SALES.yml"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = b.engine().Export(context.Background(), dir, false)
	if err == nil || !strings.Contains(err.Error(), "SALES.yml exists") {
		t.Errorf("error: %v", err)
	}
	if _, err := b.engine().Export(context.Background(), dir, true); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "SALES.yml")); !strings.Contains(string(text), "task: a") {
		t.Errorf("exported: %s", text)
	}
}

func TestGraphAndHistory(t *testing.T) {
	b := newBench(t)
	b.apply("c: {task: b, on: ALWAYS}", "b: a", "a:")
	g, err := b.engine().Graph(context.Background(), "SALES")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range g.Tasks {
		got = append(got, fmt.Sprintf("%s-%d-%d", task.Task, task.Wave, len(task.DependsOn)))
	}
	if strings.Join(got, " ") != "a-1-0 b-2-1 c-3-1" {
		t.Errorf("tasks: %v", got)
	}
	_, err = b.engine().Status(context.Background(), StatusRequest{Pipeline: "SALES"})
	wantCode(t, err, fault.RunNotFound)
	b.mustRun(RunRequest{})
	newest := b.mustRun(RunRequest{})
	h, err := b.engine().History(context.Background(), "SALES", 1)
	if err != nil || len(h.Runs) != 1 || h.Runs[0].PipelineRunID != newest.PipelineRunID {
		t.Errorf("history: %v %+v", err, h)
	}
}

func TestSchedules(t *testing.T) {
	for schedule, good := range map[string]bool{
		"0 5 * * *": true, "*/5 0-6 1,15 JAN-MAR MON-FRI": true, "@daily": true,
		"0 5 * * 7": true, "0 5 * * 5-7": true, "0 5 * * 0-7": true, "0 5 * * 1-7/2,SAT": true, "0 5 * * 7,1": true,
		"0 5 * * 8": false, "0 5 * * 5-8": false, "0 5 * * 7-9": false, "0 5 * * 1-7/0": false, "0 7 * * 7-": false,
		"0 5 * *": false, "0 25 * * *": false, "@every 5m": false, "TZ=UTC 0 5 * * *": false,
	} {
		if err := checkSchedule(schedule); (err == nil) != good {
			t.Errorf("%q: %v", schedule, err)
		}
	}
	for field, want := range map[string]string{"7": "0", "5-7": "5,6,0", "1-7/3": "1,4,0", "0-7/2": "0,2,4,6", "MON,7": "MON,0", "1-5": "1-5", "*/7": "*/7"} {
		if got := sundays(field); got != want {
			t.Errorf("%q reads %q, want %q", field, got, want)
		}
	}
}

// TestMixedCycle finds circles that neither the tasks of one pipeline nor the dependencies between pipelines show.
func TestMixedCycle(t *testing.T) {
	for name, tt := range map[string]struct{ a, b, want string }{
		"tasks of two pipelines": {"tasks: [{task: x, handler: TEST, depends_on: [B.y]}]\n", "tasks: [{task: y, handler: TEST, depends_on: [A.x]}]\n",
			"FAIL GRAPH_CYCLE A.x: tasks and pipelines depend on each other in a circle: A.x waits for B.y waits for A.x"},
		"a pipeline and a task": {"depends_on: [B]\ntasks: [{task: x, handler: TEST}]\n", "tasks: [{task: y, handler: TEST, depends_on: [A.x]}]\n",
			"FAIL GRAPH_CYCLE A.: tasks and pipelines depend on each other in a circle: the start of A waits for the end of B waits for B.y waits for A.x waits for the start of A"},
		"no circle": {"depends_on: [B]\ntasks: [{task: x, handler: TEST, depends_on: [B.y]}]\n", "tasks: [{task: y, handler: TEST}]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "pipelines"), 0o700); err != nil {
				t.Fatal(err)
			}
			for code, text := range map[string]string{"A": tt.a, "B": tt.b} {
				if err := os.WriteFile(filepath.Join(dir, "pipelines", code+".yml"), []byte("pipeline: "+code+"\n"+text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			doc, _ := New(Deps{Config: &config.Config{Dir: dir}, Handlers: newHandlers()}).Validate(context.Background(), ValidateRequest{Files: true})
			if got := lines(doc.Problems); strings.TrimSpace(got) != tt.want {
				t.Errorf("problems:\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
