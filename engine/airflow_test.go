package engine

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/shell"
)

var update = flag.Bool("update", false, "rewrite the golden DAG files")

// graphOf makes the graph of lines "task[/condition][?params]: upstream on TYPE, ...".
func graphOf(p store.Pipeline, lines ...string) *store.Graph {
	p.ID, p.Active, p.RefreshType = 1, true, "FULL"
	g := &store.Graph{Pipeline: p}
	ids := map[string]int64{}
	for _, line := range lines {
		head, ups, _ := strings.Cut(line, ":")
		head, params, _ := strings.Cut(head, "?")
		code, condition, _ := strings.Cut(head, "/")
		t := store.Task{ID: int64(len(g.Tasks) + 1), Code: code, PipelineID: 1, PipelineCode: p.Code, Handler: "TEST", RunCondition: condition, Params: map[string]string{}}
		if condition == "2" {
			t.RunCondition, t.ConditionCount = "N", 2
		}
		for _, pair := range strings.Fields(params) {
			name, value, _ := strings.Cut(pair, "=")
			t.Params[name] = value
		}
		for _, up := range strings.Split(ups, ",") {
			words := strings.Fields(up)
			if len(words) == 0 {
				continue
			}
			e := store.TaskEdge{PipelineID: 1, PipelineCode: p.Code, TaskCode: words[0], TaskActive: true, Type: store.OnSuccess, Match: store.MatchNewest}
			if len(words) == 3 {
				e.Type = words[2]
			}
			if other, task, ok := strings.Cut(words[0], "."); ok {
				e.PipelineID, e.PipelineCode, e.TaskID, e.TaskCode = 9, other, 90, task
			} else {
				e.TaskID = ids[e.TaskCode]
			}
			t.DependsOn = append(t.DependsOn, e)
		}
		ids[code] = t.ID
		g.Tasks = append(g.Tasks, t)
	}
	return g
}

var dagCases = []struct {
	name  string
	file  string // of the configuration
	graph *store.Graph
}{
	{"plain", "/srv/sales/etl-craft.yml", graphOf(store.Pipeline{Code: "SALES", Name: "Daily sales", Schedule: "0 5 * * *", Timezone: "Europe/Paris"},
		"load_orders?RETRIES=2 RETRY_DELAY_SECONDS=30 RETRY_BACKOFF=1.5", "load_customers?RETRIES=1 RETRY_BACKOFF=1", "summary: load_orders, load_customers")},
	{"rules", "/srv/sales/etl-craft.yml", graphOf(store.Pipeline{Code: "RULES", Name: "RULES"},
		"a", "b", "mid: a", "all_success: a, b", "any_success/ANY: a, b", "all_always: mid on ALWAYS, b on ALWAYS", "any_always/ANY: a on ALWAYS, b on ALWAYS",
		"any_always_deep/ANY: mid on ALWAYS, b on ALWAYS", "all_failure: a on FAILURE, b on FAILURE", "any_failure/ANY: a on FAILURE, b on FAILURE",
		"all_failure_deep: mid on FAILURE", "any_failure_deep/ANY: mid on FAILURE, b on FAILURE", "two_of_three/2: a, b, mid", "has_data: a on HAS_DATA",
		"mixed: a, b on FAILURE", "two_of_two/2: a, b", "class: a")},
	{"gates", "/srv/sales/etl-craft.yml", func() *store.Graph {
		g := graphOf(store.Pipeline{Code: "GATES", Name: "Gates", Description: "waits\nfor \"RAW\"", Schedule: "@daily", StartDate: "2026-09-01", Catchup: true},
			"a: RAW.extract", "b: a, RAW.extract on HAS_DATA", "c: a")
		g.DependsOn = []store.PipelineEdge{{ID: 1, PipelineID: 9, PipelineCode: "RAW", PipelineActive: true, Type: store.OnSuccess, Match: store.MatchSameDate}}
		return g
	}()},
	{"quoting", "/srv/o'brien \"x\" {{ ds }} $(id)/a\\b\n.yml", graphOf(store.Pipeline{Code: "Q", Name: "\"\"\" + 'é'\t\u202e{{ ds }}", Description: `\`}, "None")},
	{"empty", "/srv/sales/etl-craft.yml", graphOf(store.Pipeline{Code: "EMPTY", Name: "EMPTY"})},
}

func dagEngine(file string) *Engine {
	return New(Deps{Config: &config.Config{File: file, Profile: "prod", Orchestration: config.Orchestration{Mode: config.Remote, GateWait: 3600e9}}, Handlers: newHandlers()})
}

// TestAirflowDAG compares the file with the text that was reviewed, and lets Python compile it where there is one.
func TestAirflowDAG(t *testing.T) {
	compile := []string{"-m", "py_compile"}
	for _, c := range dagCases {
		compile = append(compile, filepath.Join("testdata", "airflow", c.name+".py"))
		t.Run(c.name, func(t *testing.T) {
			d, err := dagEngine(c.file).dag(c.graph)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := dagTemplate.Execute(&b, d); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "airflow", c.name+".py")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s (run with -update after review):\n%s", path, diff)
			}
		})
	}
	t.Run("python", func(t *testing.T) {
		python3, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("there is no python3 to compile the files")
		}
		compiler := exec.Command(python3, compile...)
		compiler.Env = append(os.Environ(), "PYTHONPYCACHEPREFIX="+t.TempDir())
		if out, err := compiler.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestAirflowQuoting: Python and a shell read back what was written for them.
func TestAirflowQuoting(t *testing.T) {
	texts := []string{"", "plain", `'`, `"`, `\`, `\\"'`, "a\nb\tc", "$(id) `id` $HOME !x *", "é\u2028\u202e\U0001f600", "--help", "a;b|c&d", "#x", "~", "{a,b}"}
	for _, text := range texts {
		out, err := exec.Command("bash", "-c", "printf %s "+shell.Word(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("a shell reads %q as %q: %v", text, out, err)
		}
	}
	python3, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	var literals strings.Builder
	for _, text := range texts {
		literals.WriteString(python(text) + ", ")
	}
	out, err := exec.Command(python3, "-c", "import sys; sys.stdout.buffer.write('\\0'.join(["+literals.String()+"]).encode())").Output()
	if want := strings.Join(texts, "\x00"); err != nil || string(out) != want {
		t.Errorf("Python reads %q, want %q: %v", out, want, err)
	}
}

func TestJinja(t *testing.T) {
	for text, want := range map[string]string{"a{b}": "a{b}", "{{ x }}": `{{ "{" }}{{ "{" }} x }}`, "{%": `{{ "{" }}%`, "{#": `{{ "{" }}#`} {
		if got := jinja(text); got != want {
			t.Errorf("jinja(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAirflow(t *testing.T) {
	b := newRemote(t)
	b.apply("a:", "b: a")
	ctx, out := context.Background(), filepath.Join(b.dir, "SALES.py")
	doc, err := b.engine().Airflow(ctx, "SALES", "")
	if err != nil || doc.File != nil || !strings.Contains(doc.DAG, `dag_id="SALES"`) {
		t.Fatalf("%+v, %v", doc, err)
	}
	for _, mode := range []os.FileMode{0o600, 0o644} { // the second time it replaces the file and leaves its mode
		if _, err := b.engine().Airflow(ctx, "SALES", out); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(out)
		if err != nil || info.Mode() != mode {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != doc.DAG {
		t.Errorf("the file says %q, %v", text, err)
	}
	b.write("mine.py", "print(1)\n")
	_, err = b.engine().Airflow(ctx, "SALES", filepath.Join(b.dir, "mine.py"))
	wantCode(t, err, fault.FileExists)
	_, err = b.engine().Airflow(ctx, "NOWHERE", "")
	wantCode(t, err, fault.PipelineNotFound)
	_, err = dagEngine("/x").dag(graphOf(store.Pipeline{Code: "P", Catchup: true}, "a"))
	wantCode(t, err, fault.MetadataInvalid, "SCHEDULE_START_DATE")
	b.change = nil
	_, err = b.engine().Airflow(ctx, "SALES", "")
	wantCode(t, err, fault.WrongMode, "remote")
}
