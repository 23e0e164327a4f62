package project_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/project"
)

// documented is the example of the reference, whole.
const documented = `
pipeline: SALES                     # PIPELINE_CODE: a letter, then letters, digits, _; at most 128
name: Daily sales
description: text
refresh_type: INCREMENTAL           # or FULL
schedule: "0 5 * * *"               # kept as data for a scheduler or an orchestrator
timezone: UTC
sla_hours: 2
depends_on:                         # pipeline gates
  - { pipeline: RAW, on: SUCCESS }     # also match: newest (default) | same_date; consume_repairs: true
tasks:
  - task: load_orders               # TASK_CODE
    type: ETL                       # INGESTION | ETL, default ETL
    handler: SQL                    # default SQL
    params:
      SQL_ACTION: APPEND_TABLE
      TARGET_OBJECT: staging.orders
      SOURCE_SQL_FILE: sales/orders.sql
      RUN_DATE_SUBSTITUTION: true   # a scalar is its text as written: yes is "yes", 1.0 is "1.0"
  - task: load_customers
    depends_on:
      - load_orders                                   # on SUCCESS
      - { task: RAW.extract_customers, on: HAS_DATA } # another pipeline's task
    run_condition: ALL              # ALL | ANY | a number
    params:
      SQL_ACTION: SCD2_MERGE
      TARGET_OBJECT: sales.customers
      SOURCE_SQL: |
        SELECT customer_id, name, email FROM staging.customers WHERE $$pipeline_run_id_filter
      MERGE_KEY: customer_id        # a YAML list is joined with |
      MERGE_COMPARE_COLUMNS: [name, email]
      PIPELINE_RUN_ID_FILTER: true
`

// write puts pipeline files, as name, content, into a new project folder.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pipelines"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, "pipelines", files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mustLoad(t *testing.T, text string) store.DesiredPipeline {
	t.Helper()
	pipelines, problems := project.Load(write(t, "P.yml", text))
	if len(problems) > 0 || len(pipelines) != 1 {
		t.Fatalf("%d pipelines, problems %v", len(pipelines), yamlfile.Lines(problems))
	}
	return pipelines[0]
}

func TestDocumentedExample(t *testing.T) {
	two := 2.0
	want := store.DesiredPipeline{
		Code: "SALES", Name: "Daily sales", Description: "text", RefreshType: "INCREMENTAL", Schedule: "0 5 * * *", Timezone: "UTC",
		SLAHours: &two, Origin: "file pipelines/P.yml",
		DependsOn: []store.DesiredPipelineEdge{{Pipeline: "RAW", Type: "SUCCESS", Match: "NEWEST", ConsumeRepairs: true}},
		Tasks: []store.DesiredTask{
			{Code: "load_orders", Type: "ETL", Handler: "SQL", RunCondition: "ALL", Params: map[string]string{
				"SQL_ACTION": "APPEND_TABLE", "TARGET_OBJECT": "staging.orders", "SOURCE_SQL_FILE": "sales/orders.sql", "RUN_DATE_SUBSTITUTION": "true",
			}},
			{Code: "load_customers", Type: "ETL", Handler: "SQL", RunCondition: "ALL", Params: map[string]string{
				"SQL_ACTION": "SCD2_MERGE", "TARGET_OBJECT": "sales.customers", "MERGE_KEY": "customer_id", "MERGE_COMPARE_COLUMNS": "name|email",
				"SOURCE_SQL":             "SELECT customer_id, name, email FROM staging.customers WHERE $$pipeline_run_id_filter\n",
				"PIPELINE_RUN_ID_FILTER": "true",
			}, DependsOn: []store.DesiredTaskEdge{
				{Task: "load_orders", Type: "SUCCESS", Match: "NEWEST", ConsumeRepairs: true},
				{Pipeline: "RAW", Task: "extract_customers", Type: "HAS_DATA", Match: "NEWEST", ConsumeRepairs: true},
			}},
		},
	}
	if diff := cmp.Diff(want, mustLoad(t, documented)); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	want := store.DesiredPipeline{Code: "p", Name: "p", RefreshType: "INCREMENTAL", Origin: "file pipelines/P.yml",
		Tasks: []store.DesiredTask{{Code: "t", Type: "ETL", Handler: "SQL", RunCondition: "ALL", Params: map[string]string{}}}}
	if diff := cmp.Diff(want, mustLoad(t, "pipeline: p\ndepends_on:\ntasks:\n- task: t\n  params:\n  depends_on: []\n")); diff != "" {
		t.Error(diff)
	}
}

func TestEverythingElse(t *testing.T) {
	half := 0.5
	want := store.DesiredPipeline{Code: "P", Name: "1.0", RefreshType: "FULL", SLAHours: &half, Origin: "file pipelines/P.yml",
		DependsOn: []store.DesiredPipelineEdge{
			{Pipeline: "A", Type: "SUCCESS", Match: "NEWEST", ConsumeRepairs: true},
			{Pipeline: "A", Type: "HAS_DATA", Match: "SAME_DATE"},
		},
		Tasks: []store.DesiredTask{
			{Code: "a", Type: "INGESTION", Handler: "PYTHON", RunCondition: "ANY", Params: map[string]string{
				"A": "yes", "B": "1.0", "C": "~", "D": "null", "E": "0x1F", "F": "2026-09-01", "G": "", "H": "1.0|yes|a|b", "I": "folded text", "X_own": "TRUE", "x_OWN": "x",
			}},
			{Code: "b", Type: "ETL", Handler: "SQL", RunCondition: "N", ConditionCount: 2, Params: map[string]string{}, DependsOn: []store.DesiredTaskEdge{
				{Task: "a", Type: "ALWAYS", Match: "NEWEST", ConsumeRepairs: true},
				{Task: "a", Type: "FAILURE", Match: "NEWEST", ConsumeRepairs: true},
				{Pipeline: "A", Task: "a", Type: "SUCCESS", Match: "SAME_DATE", ConsumeRepairs: true},
			}},
		}}
	got := mustLoad(t, `
Pipeline: P
NAME: 1.0
refresh_type: full
sla_hours: .5
depends_on: [A, { pipeline: A, ON: has_data, match: same_date, consume_repairs: false }]
tasks:
  - task: a
    type: ingestion
    handler: PYTHON
    run_condition: any
    params:
      A: yes
      B: 1.0
      C: ~
      D: null
      E: 0x1F
      F: 2026-09-01
      G: ""
      H: [1.0, yes, "a|b"]
      I: >-
        folded
        text
      X_own: TRUE
      x_OWN: x
  - task: b
    run_condition: "2"
    depends_on:
      - { task: P.a, on: ALWAYS }
      - { task: a, on: FAILURE, consume_repairs: true }
      - { task: A.a, match: SAME_DATE }
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoFiles(t *testing.T) {
	for _, dir := range []string{t.TempDir(), write(t), write(t, "README.md", "x", ".hidden.yml", ":")} {
		if pipelines, problems := project.Load(dir); len(pipelines)+len(problems) > 0 {
			t.Errorf("%v %v", pipelines, problems)
		}
	}
}

func TestProblems(t *testing.T) {
	task := func(rest string) string { return "pipeline: P\ntasks:\n  - task: a\n  - task: b\n    " + rest + "\n" }
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "\n", []string{"pipelines/P.yml:1:1: the file is empty; begin with pipeline: CODE"}},
		{"a list", "- pipeline: P\n", []string{"pipelines/P.yml:1:1: the file must be a mapping of keys to values, not a list; write it as key: value"}},
		{"syntax", "pipeline: P\ntasks: [\n", []string{"pipelines/P.yml:2:1: not YAML: did not find expected node content; put text with : # , quotes or brackets between quotes, and look at the line before too"}},
		{"no pipeline", "name: x\n", []string{"pipelines/P.yml:1:1: the file has no pipeline; write pipeline: CODE, a letter, then letters, digits and _, at most 128"}},
		{"empty pipeline", "pipeline: ''\n", []string{"pipelines/P.yml:1:11: the file has an empty pipeline; write pipeline: CODE, a letter, then letters, digits and _, at most 128"}},
		{"bad codes", "pipeline: 1P\n", []string{`pipelines/P.yml:1:11: pipeline "1P" is not a code; a letter, then letters, digits and _, at most 128`}},
		{"unknown and repeated keys", "pipeline: P\nrefreshtype: FULL\nName: a\nname: b\ntasks:\n  - task: a\n    parms: {}\n    params: { K: 1, K: 2 }\ndepends_on:\n  - { pipline: B }\n", []string{
			"pipelines/P.yml:2:1: unknown key refreshtype in the file; did you mean refresh_type?",
			"pipelines/P.yml:4:1: name is set twice in the file, first in line 3; remove one of them",
			"pipelines/P.yml:7:5: unknown key parms in an item of tasks; did you mean params?",
			"pipelines/P.yml:8:21: K is set twice in params, first in line 8; remove one of them",
			"pipelines/P.yml:10:5: an item of depends_on has no pipeline; write pipeline: CODE, a letter, then letters, digits and _, at most 128",
			"pipelines/P.yml:10:7: unknown key pipline in an item of depends_on; did you mean pipeline?",
		}},
		{"values", "pipeline: P\nrefresh_type: INCREMENTL\nsla_hours: 0\nschedule: {}\ndepends_on: A\ntasks:\n  task: a\n", []string{
			`pipelines/P.yml:2:15: refresh_type is "INCREMENTL"; it takes INCREMENTAL, FULL; did you mean INCREMENTAL?`,
			`pipelines/P.yml:3:12: sla_hours is "0"; it takes a number above 0`,
			"pipelines/P.yml:4:11: schedule must be one value, not a mapping; write one value",
			"pipelines/P.yml:5:13: depends_on must be a list, not one value; begin each item with -",
			"pipelines/P.yml:7:3: tasks must be a list, not a mapping; begin each item with -",
		}},
		{"notifications", "pipeline: P\nnotifications:\n  ops: [FAILD, failed, {}]\n  chat: FAILED\n  none:\n", []string{
			`pipelines/P.yml:3:9: notifications.ops has "FAILD"; it takes SUCCESS, FAILED, SKIPPED, CANCELLED, SLA_BREACHED; did you mean FAILED?`,
			"pipelines/P.yml:3:24: an item of notifications.ops must be one value, not a mapping; write one value",
			"pipelines/P.yml:4:9: notifications.chat must be a list, not one value; begin each item with -",
		}},
		{"no number", "pipeline: P\nsla_hours: NaN\n", []string{`pipelines/P.yml:2:12: sla_hours is "NaN"; it takes a number above 0`}},
		{"pipeline edges", "pipeline: P\ndepends_on:\n  - P\n  - A\n  - { pipeline: A, on: success }\n  - { pipeline: A, on: SUCESS, match: newst, consume_repairs: yes }\n  - [A]\n  - A-B\n  -\n", []string{
			"pipelines/P.yml:3:5: pipeline P depends on itself; remove it",
			"pipelines/P.yml:5:5: depends_on names A on SUCCESS twice; remove one of them",
			`pipelines/P.yml:6:24: on is "SUCESS"; it takes SUCCESS, FAILURE, ALWAYS, HAS_DATA; did you mean SUCCESS?`,
			`pipelines/P.yml:6:39: match is "newst"; it takes newest, same_date; did you mean newest?`,
			`pipelines/P.yml:6:63: consume_repairs is "yes"; it takes true or false`,
			"pipelines/P.yml:7:5: an item of depends_on must be a mapping of keys to values, not a list; write it as key: value",
			`pipelines/P.yml:8:5: pipeline "A-B" is not a code; a letter, then letters, digits and _, at most 128`,
			"pipelines/P.yml:9:4: an item of depends_on has an empty pipeline; write pipeline: CODE, a letter, then letters, digits and _, at most 128",
		}},
		{"tasks", "pipeline: P\ntasks:\n  - a\n  -\n  - { type: ETL }\n  - task: a b\n  - task: c\n  - task: c\n    type: LOAD\n  - { task: d, type: LOAD, run_condition: 0 }\n", []string{
			"pipelines/P.yml:3:5: an item of tasks must be a mapping of keys to values, not one value; write it as key: value",
			"pipelines/P.yml:4:4: an item of tasks is empty; begin it with task: CODE",
			"pipelines/P.yml:5:5: an item of tasks has no task; write task: CODE, a letter, then letters, digits and _, at most 128",
			`pipelines/P.yml:6:11: task "a b" is not a code; a letter, then letters, digits and _, at most 128`,
			"pipelines/P.yml:8:11: task c is declared twice; remove one of them, or give it another code",
			`pipelines/P.yml:10:22: type is "LOAD"; it takes INGESTION, ETL`,
			`pipelines/P.yml:10:43: run_condition is "0"; it takes ALL, ANY or a whole number from 1 to 2147483647`,
		}},
		{"task edges", task("depends_on: [b, P.b, P.a, a, { task: a, on: ALWAYS }, A.b.c, .a, { on: ALWAYS }]"), []string{
			"pipelines/P.yml:5:18: task b depends on itself; remove it",
			"pipelines/P.yml:5:21: task b depends on itself; remove it",
			"pipelines/P.yml:5:31: depends_on names a on SUCCESS twice; remove one of them",
			`pipelines/P.yml:5:59: "A.b.c" names no task; CODE, or PIPELINE.CODE; a code is a letter, then letters, digits and _, at most 128`,
			`pipelines/P.yml:5:66: ".a" names no task; CODE, or PIPELINE.CODE; a code is a letter, then letters, digits and _, at most 128`,
			"pipelines/P.yml:5:70: an item of depends_on has no task; write task: the task waited for: CODE, or PIPELINE.CODE",
		}},
		{"params", task("params: { A: , B: [], C: {}, D: [[x]], E: \"\\0\", F: !x y, G: [{a: b}] }"), []string{
			`pipelines/P.yml:5:15: A has no value; remove it, or write "" for an empty text`,
			"pipelines/P.yml:5:23: B is an empty list; remove it",
			"pipelines/P.yml:5:30: C must be one value or a list, not a mapping; write one value, or a list of values",
			"pipelines/P.yml:5:38: an item of D must be one value, not a list; write one value",
			"pipelines/P.yml:5:47: E holds a NUL character; remove it",
			"pipelines/P.yml:5:56: F has a tag that means nothing here; quote text that begins with !",
			"pipelines/P.yml:5:66: an item of G must be one value, not a mapping; write one value",
		}},
		{"params of a wrong shape", task("params: [a]"), []string{"pipelines/P.yml:5:13: params must be a mapping of keys to values, not a list; write it as key: value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := project.Load(write(t, "P.yml", c.text))
			if diff := cmp.Diff(c.want, yamlfile.Lines(problems)); diff != "" {
				t.Error(diff)
			}
			for _, p := range problems {
				if p.Level != "FAIL" || p.Code != fault.FileInvalid {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

func TestProblemsNamePipelineAndTask(t *testing.T) {
	_, problems := project.Load(write(t, "P.yml", "pipeline: P\ntasks: [{ task: a, type: x }]\ndepends_on: [P]\n"))
	if len(problems) != 2 || problems[0].Pipeline != "P" || problems[0].Task != "a" || problems[1].Pipeline != "P" || problems[1].Task != "" {
		t.Errorf("%+v", problems)
	}
}

func TestSeveralFiles(t *testing.T) {
	pipelines, problems := project.Load(write(t, "b.yml", "pipeline: B", "a.yml", "pipeline: A", "c.yml", "pipeline: B", "d.yaml", "pipeline: D", "e.yml", "x: 1\npipeline: E"))
	var codes []string
	for _, p := range pipelines {
		codes = append(codes, p.Code)
	}
	if diff := cmp.Diff([]string{"A", "B", "E"}, codes); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"pipelines/c.yml:1:11: pipeline B is declared in pipelines/b.yml already; keep one of them",
		"pipelines/d.yaml:1:1: pipeline files end in .yml; rename it",
		"pipelines/e.yml:1:1: unknown key x in the file; known: pipeline, name, description, refresh_type, schedule, timezone, sla_hours, notifications, depends_on, tasks",
	}
	if diff := cmp.Diff(want, yamlfile.Lines(problems)); diff != "" {
		t.Error(diff)
	}
}

func TestLocate(t *testing.T) {
	dir := write(t, "SALES.yml", documented)
	problems := []fault.Problem{
		{Pipeline: "SALES", Task: "load_orders", Parameter: "TARGET_OBJECT"},
		{Pipeline: "SALES", Task: "load_orders", Parameter: "MERGE_KEY"},
		{Pipeline: "SALES", Task: "gone"},
		{Pipeline: "RAW"},
		{Pipeline: "SALES", File: "other", Line: 7, Column: 8},
	}
	project.Locate(dir, problems)
	want := []fault.Problem{
		{Pipeline: "SALES", Task: "load_orders", Parameter: "TARGET_OBJECT", File: "pipelines/SALES.yml", Line: 17, Column: 7},
		{Pipeline: "SALES", Task: "load_orders", Parameter: "MERGE_KEY", File: "pipelines/SALES.yml", Line: 12, Column: 11},
		{Pipeline: "SALES", Task: "gone", File: "pipelines/SALES.yml", Line: 2, Column: 11},
		{Pipeline: "RAW"},
		{Pipeline: "SALES", File: "other", Line: 7, Column: 8},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(documented))
	f.Add([]byte("pipeline: P\ntasks: &t\n  - &a { task: a, depends_on: *t, <<: *a }\n"))
	f.Add([]byte("pipeline: P\ndepends_on: [A, {pipeline: B, on: ~}, [], ]\ntasks: [{task: x, params: {a: [b, [c]], ? [x] : y}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := write(t, "P.yml", string(data))
		pipelines, problems := project.Load(dir)
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.File != "pipelines/P.yml" || p.Message == "" {
				t.Fatalf("a problem without its place: %+v", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if len(pipelines) != 1 {
			t.Fatalf("%d pipelines and no problem", len(pipelines))
		}
		roundTrip(t, pipelines[0])
	})
}
