// Package project reads and writes the pipeline files of a project, pipelines/*.yml. It knows their shape; whether the
// pipelines they declare make sense is for validation.
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// Folder is where a project keeps its pipeline files.
const Folder = "pipelines"

var codeRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,127}$`)

// Load reads pipelines/*.yml of the project folder dir, in the order of the file names, with defaults filled in. No
// folder is no pipelines. Every problem of every file is returned, with its place; a pipeline with problems is
// returned as far as it can be read.
func Load(dir string) ([]store.DesiredPipeline, []fault.Problem) {
	pipelines, problems, _ := load(dir)
	return pipelines, problems
}

// Locate gives problems about a pipeline, task or parameter the place in the files that declares it.
func Locate(dir string, problems []fault.Problem) {
	if len(problems) == 0 {
		return
	}
	_, _, places := load(dir)
	for i := range problems {
		p := &problems[i]
		if p.Line > 0 {
			continue
		}
		for _, key := range []thing{{p.Pipeline, p.Task, p.Parameter}, {p.Pipeline, p.Task, ""}, {p.Pipeline, "", ""}} {
			if at, ok := places[key]; ok {
				p.File, p.Line, p.Column = at.file, at.line, at.column
				break
			}
		}
	}
}

// thing is a pipeline, a task of it or a parameter of that; what does not apply is "".
type thing struct{ pipeline, task, parameter string }

type place struct {
	file         string
	line, column int
}

func load(dir string) ([]store.DesiredPipeline, []fault.Problem, map[thing]place) {
	places := map[thing]place{}
	entries, err := os.ReadDir(filepath.Join(dir, Folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, places
	}
	if err != nil {
		return nil, []fault.Problem{unreadable(Folder, err)}, places
	}
	var pipelines []store.DesiredPipeline
	var problems []fault.Problem
	for _, entry := range entries {
		name := Folder + "/" + entry.Name()
		extension := filepath.Ext(name)
		if strings.HasPrefix(entry.Name(), ".") || extension != ".yml" && extension != ".yaml" {
			continue
		}
		if extension == ".yaml" {
			problems = append(problems, fault.Problem{Level: "FAIL", Code: fault.FileInvalid, File: name, Line: 1, Column: 1,
				Message: "pipeline files end in .yml", Hint: "rename it"})
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, Folder, entry.Name()))
		if err != nil {
			problems = append(problems, unreadable(name, err))
			continue
		}
		r := newReader(name, places)
		pipeline, ok := r.read(data)
		if ok {
			pipelines = append(pipelines, pipeline)
		}
		yamlfile.Sort(r.Problems)
		problems = append(problems, r.Problems...)
	}
	return pipelines, problems, places
}

func unreadable(name string, err error) fault.Problem {
	return fault.Problem{Level: "FAIL", Code: fault.FileInvalid, File: name, Line: 1, Column: 1, Message: fmt.Sprintf("cannot be read: %v", err)}
}

type reader struct {
	yamlfile.File
	places map[thing]place
}

func newReader(name string, places map[thing]place) *reader {
	return &reader{File: yamlfile.File{Name: name, Code: fault.FileInvalid}, places: places}
}

// block is a mapping that has been read. Its methods report what is wrong and then give the default.
type block struct {
	r      *reader
	what   string // in messages
	at     *yaml.Node
	keys   []Key
	fields map[string]yamlfile.Field
}

func (r *reader) block(n *yaml.Node, what string, keys []Key) block {
	b := block{r: r, what: what, at: n, keys: keys, fields: map[string]yamlfile.Field{}}
	for _, field := range r.Fields(n, what, names(keys)) {
		b.fields[field.Name] = field
	}
	return b
}

// read is not ok when nothing tells the pipeline from others. One whose code breaks the rule is read on, for its other
// problems, as is such a task.
func (r *reader) read(data []byte) (p store.DesiredPipeline, ok bool) {
	root := r.Root(data)
	if root == nil {
		if len(r.Problems) == 0 {
			r.Failf(&yaml.Node{}, "begin with pipeline: CODE", "the file is empty")
		}
		return p, false
	}
	b := r.block(root, "the file", pipelineKeys)
	if root.Kind != yaml.MappingNode {
		return p, false
	}
	code, _ := b.code("pipeline")
	if code == "" {
		return p, false
	}
	r.Pipeline = code
	at := b.fields["pipeline"].Value
	if first, declared := r.places[thing{pipeline: code}]; declared {
		r.Failf(at, "keep one of them", "pipeline %s is declared in %s already", code, first.file)
		return p, false
	}
	r.place(at, code, "", "")
	for _, key := range []string{"schedule", "timezone"} {
		if field, ok := b.fields[key]; ok {
			r.place(field.Key, code, "", key)
		}
	}
	p = store.DesiredPipeline{
		Code:          code,
		Name:          b.text("name", code),
		Description:   b.text("description", ""),
		RefreshType:   b.choice("refresh_type"),
		Schedule:      b.text("schedule", ""),
		Timezone:      b.text("timezone", ""),
		SLAHours:      b.number("sla_hours"),
		Notifications: b.subscriptions("notifications"),
		Origin:        "file " + r.Name,
	}
	for _, item := range r.Items(b.fields["depends_on"].Value, "depends_on") {
		if edge, ok := r.pipelineEdge(item, code); ok {
			if slices.ContainsFunc(p.DependsOn, func(e store.DesiredPipelineEdge) bool { return e.Pipeline == edge.Pipeline && e.Type == edge.Type }) {
				r.Failf(item, "remove one of them", "depends_on names %s on %s twice", edge.Pipeline, edge.Type)
				continue
			}
			p.DependsOn = append(p.DependsOn, edge)
		}
	}
	declared := map[string]bool{}
	for _, item := range r.Items(b.fields["tasks"].Value, "tasks") {
		task, ok := r.task(item, code, declared)
		if ok {
			p.Tasks = append(p.Tasks, task)
		}
		r.Task = ""
	}
	return p, true
}

func (r *reader) place(at *yaml.Node, pipeline, task, parameter string) {
	r.places[thing{pipeline, task, parameter}] = place{r.Name, at.Line, at.Column}
}

func (r *reader) pipelineEdge(item *yaml.Node, own string) (edge store.DesiredPipelineEdge, ok bool) {
	const what = "an item of depends_on"
	b := r.item(item, what, "pipeline", pipelineEdgeKeys)
	code, ok := b.code("pipeline")
	if !ok {
		return edge, false
	}
	if code == own {
		r.Failf(item, "remove it", "pipeline %s depends on itself", own)
		return edge, false
	}
	before := len(r.Problems)
	edge = store.DesiredPipelineEdge{Pipeline: code, Type: b.choice("on"), Match: b.choice("match"), ConsumeRepairs: b.yes("consume_repairs")}
	return edge, len(r.Problems) == before
}

// item reads an item that is a mapping, or a value alone: that of the key short.
func (r *reader) item(n *yaml.Node, what, short string, keys []Key) block {
	if n.Kind == yaml.ScalarNode {
		return block{r: r, what: what, at: n, keys: keys, fields: map[string]yamlfile.Field{short: {Name: short, Key: n, Value: n}}}
	}
	return r.block(n, what, keys)
}

func (r *reader) task(item *yaml.Node, pipeline string, declared map[string]bool) (t store.DesiredTask, ok bool) {
	b := r.block(item, "an item of tasks", taskKeys)
	if item.Kind != yaml.MappingNode {
		if item.Kind == yaml.ScalarNode && item.ShortTag() == "!!null" {
			r.Failf(item, "begin it with task: CODE", "an item of tasks is empty")
		}
		return t, false
	}
	code, _ := b.code("task")
	if code == "" {
		return t, false
	}
	r.Task = code
	if declared[code] {
		r.Failf(b.fields["task"].Value, "remove one of them, or give it another code", "task %s is declared twice", code)
		return t, false
	}
	declared[code] = true
	r.place(b.fields["task"].Value, pipeline, code, "")
	b.what = "task " + code
	t = store.DesiredTask{
		Code:    code,
		Type:    b.choice("type"),
		Handler: b.text("handler", "SQL"),
		Params:  r.params(b, pipeline, code),
	}
	t.RunCondition, t.ConditionCount = b.count("run_condition")
	for _, item := range r.Items(b.fields["depends_on"].Value, "depends_on") {
		if edge, ok := r.taskEdge(item, pipeline, code); ok {
			if slices.ContainsFunc(t.DependsOn, func(e store.DesiredTaskEdge) bool {
				return e.Pipeline == edge.Pipeline && e.Task == edge.Task && e.Type == edge.Type
			}) {
				r.Failf(item, "remove one of them", "depends_on names %s on %s twice", reference(edge), edge.Type)
				continue
			}
			t.DependsOn = append(t.DependsOn, edge)
		}
	}
	return t, true
}

func (r *reader) params(b block, pipeline, task string) map[string]string {
	params := map[string]string{}
	field, ok := b.fields["params"]
	if !ok {
		return params
	}
	for _, param := range r.Names(field.Value, "params") {
		value, ok := r.param(param)
		if ok {
			params[param.Name] = value
			r.place(param.Key, pipeline, task, param.Name)
		}
	}
	return params
}

// param is a scalar as written, or a list joined with |.
func (r *reader) param(param yamlfile.Field) (string, bool) {
	if param.Value.Kind == yaml.MappingNode {
		r.Failf(param.Value, "write one value, or a list of values", "%s must be one value or a list, not a mapping", param.Name)
		return "", false
	}
	if param.Value.Kind == yaml.ScalarNode {
		if param.Value.Value == "" && param.Value.ShortTag() == "!!null" {
			r.Failf(param.Key, `remove it, or write "" for an empty text`, "%s has no value", param.Name)
			return "", false
		}
		return r.Text(param.Value, param.Name)
	}
	items := r.Items(param.Value, param.Name)
	if len(items) == 0 {
		r.Failf(param.Value, "remove it", "%s is an empty list", param.Name)
		return "", false
	}
	var texts []string
	for _, item := range items {
		text, ok := r.Text(item, "an item of "+param.Name)
		if !ok {
			return "", false
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "|"), true
}

func (r *reader) taskEdge(item *yaml.Node, pipeline, own string) (edge store.DesiredTaskEdge, ok bool) {
	const what = "an item of depends_on"
	b := r.item(item, what, "task", taskEdgeKeys)
	written := b.required("task")
	if written == "" {
		return edge, false
	}
	other, task, crosses := strings.Cut(written, ".")
	if !crosses {
		other, task = "", written
	}
	if !codeRule.MatchString(task) || crosses && !codeRule.MatchString(other) {
		r.Failf(b.fields["task"].Value, "CODE, or PIPELINE.CODE; a code is a letter, then letters, digits and _, at most 128", "%q names no task", written)
		return edge, false
	}
	if other == pipeline {
		other = ""
	}
	if other == "" && task == own {
		r.Failf(item, "remove it", "task %s depends on itself", own)
		return edge, false
	}
	before := len(r.Problems)
	edge = store.DesiredTaskEdge{Pipeline: other, Task: task, Type: b.choice("on"), Match: b.choice("match"), ConsumeRepairs: b.yes("consume_repairs")}
	return edge, len(r.Problems) == before
}

// reference is how a file names the task of an edge.
func reference(e store.DesiredTaskEdge) string {
	if e.Pipeline == "" {
		return e.Task
	}
	return e.Pipeline + "." + e.Task
}

func (b block) key(name string) Key {
	return b.keys[slices.IndexFunc(b.keys, func(k Key) bool { return k.Name == name })]
}

func (b block) text(name, otherwise string) string {
	field, ok := b.fields[name]
	if !ok {
		return otherwise
	}
	text, ok := b.r.Text(field.Value, name)
	if !ok {
		return otherwise
	}
	return text
}

func (b block) required(name string) string {
	if _, ok := b.fields[name]; !ok {
		if b.at.Kind == yaml.MappingNode {
			b.r.Failf(b.at, b.wanted(name), "%s has no %s", b.what, name)
		}
		return ""
	}
	before := len(b.r.Problems)
	text := b.text(name, "")
	if text == "" && len(b.r.Problems) == before {
		b.r.Failf(b.fields[name].Value, b.wanted(name), "%s has an empty %s", b.what, name)
	}
	return text
}

// wanted is the remedy for a key without its value.
func (b block) wanted(name string) string {
	if key := b.key(name); key.Kind != Code {
		return "write " + name + ": " + key.Help
	}
	return "write " + name + ": CODE, a letter, then letters, digits and _, at most 128"
}

// code is "" when none is written, and not ok when it breaks the rule.
func (b block) code(name string) (string, bool) {
	code := b.required(name)
	if code == "" {
		return "", false
	}
	if !codeRule.MatchString(code) {
		b.r.Failf(b.fields[name].Value, "a letter, then letters, digits and _, at most 128", "%s %q is not a code", name, code)
		return code, false
	}
	return code, true
}

// choice is upper case, as in the Engine DB.
func (b block) choice(name string) string {
	key := b.key(name)
	text := b.text(name, key.Default)
	if i := slices.IndexFunc(key.Allowed, func(a string) bool { return strings.EqualFold(a, text) }); i >= 0 {
		return strings.ToUpper(key.Allowed[i])
	}
	hint := "it takes " + strings.Join(key.Allowed, ", ")
	if near := nearest.Of(text, key.Allowed); near != "" {
		hint += "; did you mean " + near + "?"
	}
	b.r.Failf(b.fields[name].Value, hint, "%s is %q", name, text)
	return strings.ToUpper(key.Default)
}

func (b block) yes(name string) bool {
	text := b.text(name, "true")
	if !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
		b.r.Failf(b.fields[name].Value, "it takes true or false", "%s is %q", name, text)
	}
	return !strings.EqualFold(text, "false")
}

func (b block) number(name string) *float64 {
	text := b.text(name, "")
	if _, ok := b.fields[name]; !ok || text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		b.r.Failf(b.fields[name].Value, "it takes a number above 0", "%s is %q", name, text)
		return nil
	}
	return &n
}

// subscriptions are lists of events by the names of webhooks.
func (b block) subscriptions(name string) store.Subscriptions {
	field, ok := b.fields[name]
	if !ok {
		return nil
	}
	var all store.Subscriptions
	for _, webhook := range b.r.Names(field.Value, name) {
		what := name + "." + webhook.Name
		events := []string{}
		for _, item := range b.r.Items(webhook.Value, what) {
			text, ok := b.r.Text(item, "an item of "+what)
			event := strings.ToUpper(text)
			switch {
			case !ok:
			case !slices.Contains(config.Events, event):
				hint := "it takes " + strings.Join(config.Events, ", ")
				if near := nearest.Of(event, config.Events); near != "" {
					hint += "; did you mean " + near + "?"
				}
				b.r.Failf(item, hint, "%s has %q", what, text)
			case !slices.Contains(events, event):
				events = append(events, event)
			}
		}
		if all == nil {
			all = store.Subscriptions{}
		}
		all[webhook.Name] = events
	}
	return all
}

// count is ALL or ANY, or N with its number.
func (b block) count(name string) (condition string, n int) {
	text := strings.ToUpper(b.text(name, "ALL"))
	if text == "ALL" || text == "ANY" {
		return text, 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > math.MaxInt32 {
		b.r.Failf(b.fields[name].Value, fmt.Sprintf("it takes ALL, ANY or a whole number from 1 to %d", math.MaxInt32), "%s is %q", name, text)
		return "ALL", 0
	}
	return "N", n
}
