package engine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/shell"
)

//go:embed airflow.py.tmpl
var dagText string

var dagTemplate = template.Must(template.New("airflow.py.tmpl").Parse(dagText))

// AirflowDocument is etl-craft/airflow/1, the answer of airflow.
type AirflowDocument struct {
	Schema   string  `json:"schema"`
	Pipeline string  `json:"pipeline"`
	File     *string `json:"file"` // absolute; null when none was asked for
	DAG      string  `json:"dag"`  // Python
}

// Airflow writes the DAG file of a pipeline whose orchestration.mode is remote; with out "" it only returns the text. A
// file that is there and was not written by it is FILE_EXISTS.
func (e *Engine) Airflow(ctx context.Context, pipeline, out string) (*AirflowDocument, error) {
	g, err := e.Store.Graph(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	doc, err := e.airflow(g, out)
	return doc, inPipeline(err, g.Pipeline.Code)
}

func (e *Engine) airflow(g *store.Graph, out string) (*AirflowDocument, error) {
	if !e.remote() {
		return nil, fault.New(fault.WrongMode, "orchestration.mode of profile %s is local, so no orchestrator can run pipeline %s", e.Config.Profile, g.Pipeline.Code).
			WithHint("set orchestration.mode: remote, or name another profile: etl-craft airflow --pipeline %s --profile NAME", g.Pipeline.Code)
	}
	if err := invalid(g.Pipeline.Code, e.problems([]*store.Graph{g}, false)); err != nil {
		return nil, err
	}
	data, err := e.dag(g)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := dagTemplate.Execute(&b, data); err != nil {
		return nil, err
	}
	doc := &AirflowDocument{Schema: "etl-craft/airflow/1", Pipeline: g.Pipeline.Code, DAG: b.String()}
	if out == "" {
		return doc, nil
	}
	path, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	doc.File = &path
	return doc, writeDAG(path, doc.DAG)
}

const dagMark = "# Airflow 3 DAG of the etl-craft pipeline "

// writeDAG replaces the file in one step, because a scheduler may read it at any moment.
func writeDAG(path, text string) error {
	mode := fs.FileMode(0o600)
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !strings.HasPrefix(string(old), dagMark):
		return fault.New(fault.FileExists, "the file %s exists and is no DAG of etl-craft", path).WithHint("name another file with --out")
	default:
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), ".etl-craft-*")
	if err != nil {
		return fault.New(fault.Usage, "the DAG cannot be written: %w", err)
	}
	_, err = fresh.WriteString(text)
	if err = errors.Join(err, fresh.Chmod(mode), fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
	}
	return err
}

// dag is what the template writes. Its strings are Python.
type dag struct {
	Pipeline              string
	Run                   string
	ID, Name, Description string
	Schedule, Start       string
	Catchup               string
	Retries, Wait         int
	Tasks                 []dagTask
}

type dagTask struct {
	ID, Flags, Upstream string
	Options             []string
}

func (e *Engine) dag(g *store.Graph) (*dag, error) {
	p := g.Pipeline
	d := &dag{
		Pipeline: p.Code, Run: python(e.runCommand(p.Code)), ID: python(p.Code), Name: python(p.Name), Description: "None",
		Schedule: "None", Catchup: "False", Retries: e.Config.Orchestration.Retries,
	}
	if p.Description != "" {
		d.Description = python(p.Description)
	}
	if p.Schedule != "" {
		d.Schedule = python(p.Schedule)
	}
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	if p.StartDate != "" {
		var err error
		if start, err = time.Parse(time.DateOnly, p.StartDate); err != nil {
			return nil, fault.New(fault.MetadataInvalid, "SCHEDULE_START_DATE of pipeline %s is %q, not a date", p.Code, p.StartDate)
		}
	}
	if p.Catchup {
		if p.StartDate == "" {
			return nil, fault.New(fault.MetadataInvalid, "CATCHUP of pipeline %s is Y, and there is no SCHEDULE_START_DATE to catch up from", p.Code).
				WithHint("set CFG_PIPELINES.SCHEDULE_START_DATE")
		}
		d.Catchup = "True"
	}
	zone := p.Timezone
	if zone == "" {
		zone = "UTC"
	}
	d.Start = fmt.Sprintf("pendulum.datetime(%d, %d, %d, tz=%s)", start.Year(), start.Month(), start.Day(), python(zone))
	wait := int(e.Config.Orchestration.GateWait.Seconds())
	if len(g.DependsOn) > 0 && e.Config.Orchestration.DependencyGates != config.GatesOff {
		d.Wait = max(wait, 1)
	}
	order, _ := inOrder(g)
	for _, t := range order {
		task, err := e.dagTask(g, t, wait)
		if err != nil {
			return nil, err
		}
		d.Tasks = append(d.Tasks, task)
	}
	return d, nil
}

// runCommand is what all calls have in common, for a shell, in a template of Airflow.
func (e *Engine) runCommand(pipeline string) string {
	words := []string{"etl-craft", "run", "--config=" + e.Config.File, "--profile=" + e.Config.Profile, "--pipeline=" + pipeline}
	for i := range words {
		words[i] = shell.Word(words[i])
	}
	return jinja(strings.Join(words, " ")) + ` --run-key="$ETL_CRAFT_RUN_KEY"`
}

func (e *Engine) dagTask(g *store.Graph, t *store.Task, wait int) (dagTask, error) {
	d := dagTask{ID: python(t.Code), Flags: python("--task=" + t.Code), Upstream: "init"}
	var ups []string
	others := false
	for _, edge := range t.DependsOn {
		up := "tasks[" + python(edge.TaskCode) + "]"
		if edge.PipelineID != t.PipelineID {
			others = true
		} else if !slices.Contains(ups, up) { // a task may be waited for in two ways
			ups = append(ups, up)
		}
	}
	if len(ups) > 0 {
		d.Upstream = "[" + strings.Join(ups, ", ") + "]"
	}
	rule, check := triggerRule(g, t)
	if rule != "all_success" {
		d.Options = append(d.Options, "trigger_rule="+python(rule))
	}
	switch {
	case others:
		d.Options = append(d.Options, fmt.Sprintf("wait=%d", max(wait, 1)))
	case check:
		d.Options = append(d.Options, "check=True")
	}
	policy, err := (&work{e: e}).retryPolicy(t)
	if err != nil || policy.retries == 0 && e.Config.Orchestration.Retries == 0 {
		return d, err
	}
	if policy.retries != e.Config.Orchestration.Retries {
		d.Options = append(d.Options, fmt.Sprintf("retries=%d", policy.retries))
	}
	if policy.retries > 0 {
		d.Options = append(d.Options, fmt.Sprintf("retry_delay=timedelta(seconds=%d)", int(policy.delay.Seconds())))
		if policy.backoff > 1 {
			d.Options = append(d.Options, "retry_exponential_backoff="+strconv.FormatFloat(policy.backoff, 'f', -1, 64))
		}
	}
	return d, nil
}

// triggerRule is when Airflow starts a task, and whether the engine has to be asked first because no rule says the same.
// Airflow tells a task that failed from one behind it only by a word of its own, upstream_failed, which counts as failed in
// its rules and as skipped here; a task that depends on nothing can be neither upstream_failed nor skipped.
func triggerRule(g *store.Graph, t *store.Task) (rule string, check bool) {
	if len(t.DependsOn) == 0 {
		return "all_success", false
	}
	same, first := true, true
	inside := 0
	for _, edge := range t.DependsOn {
		same = same && edge.Type == t.DependsOn[0].Type
		if edge.PipelineID == t.PipelineID {
			inside++
			up := g.Task(edge.TaskCode)
			first = first && up != nil && len(up.DependsOn) == 0
		}
	}
	n := required(t)
	all, any := n == len(t.DependsOn), n == 1
	switch on := t.DependsOn[0].Type; {
	case inside == 0:
		return "all_success", true // of the task that makes the run
	case inside < len(t.DependsOn) || !same || !all && !any:
	case on == store.OnSuccess && all:
		return "all_success", false
	case on == store.OnSuccess:
		return "one_success", false
	case on == store.OnAlways && (all || !first):
		return "all_done", false // for any of them too: only later than it could
	case on == store.OnAlways:
		return "one_done", false
	case on == store.OnFailure && all:
		return "all_failed", !first
	case on == store.OnFailure && first:
		return "one_failed", false
	}
	return "all_done", true
}

// python is a string literal.
func python(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// jinja is text that a template of Airflow leaves as it is.
func jinja(s string) string {
	if !strings.Contains(s, "{{") && !strings.Contains(s, "{%") && !strings.Contains(s, "{#") {
		return s
	}
	return strings.ReplaceAll(s, "{", `{{ "{" }}`)
}
