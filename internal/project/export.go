package project

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// Export writes dir/CODE.yml for each pipeline, readable by its owner only, and returns their paths. A file that is
// there and says the same is left as it is; one that says something else makes Export refuse, with nothing written.
func Export(dir string, graphs []*store.Graph) ([]string, error) {
	type file struct {
		path string
		text []byte
	}
	var paths []string
	var missing []file
	for _, g := range graphs {
		path := filepath.Join(dir, g.Pipeline.Code+".yml")
		text, err := render(FromGraph(g))
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
		existing, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, file{path, text})
			continue
		}
		if err != nil {
			return nil, fault.New(fault.FileInvalid, "%s cannot be read: %w", path, err)
		}
		if !sameMeaning(existing, FromGraph(g)) {
			return nil, fault.New(fault.FileExists, "%s exists and says something else than the Engine DB", path).
				WithHint("etl-craft export %s --force replaces it", dir)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Usage, "%s cannot be created: %w", dir, err)
	}
	for _, f := range missing {
		if err := create(f.path, f.text); err != nil {
			return nil, fault.New(fault.Usage, "%s cannot be written: %w", f.path, err)
		}
	}
	return paths, nil
}

func create(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// FromGraph is a pipeline's rows as a file would declare them, with defaults filled in and without an Origin.
func FromGraph(g *store.Graph) store.DesiredPipeline {
	p := store.DesiredPipeline{
		Code: g.Pipeline.Code, Name: g.Pipeline.Name, Description: g.Pipeline.Description, RefreshType: g.Pipeline.RefreshType,
		Schedule: g.Pipeline.Schedule, Timezone: g.Pipeline.Timezone, SLAHours: g.Pipeline.SLAHours,
		Notifications: g.Pipeline.Notifications,
	}
	for _, e := range g.DependsOn {
		p.DependsOn = append(p.DependsOn, store.DesiredPipelineEdge{
			Pipeline: e.PipelineCode, Type: e.Type, Match: orDefault(e.Match, store.MatchNewest), ConsumeRepairs: e.ConsumeRepairs,
		})
	}
	for _, task := range g.Tasks {
		t := store.DesiredTask{
			Code: task.Code, Type: task.Type, Handler: task.Handler,
			RunCondition: orDefault(task.RunCondition, "ALL"), ConditionCount: task.ConditionCount, Params: map[string]string{},
		}
		maps.Copy(t.Params, task.Params)
		for _, e := range task.DependsOn {
			edge := store.DesiredTaskEdge{
				Pipeline: e.PipelineCode, Task: e.TaskCode, Type: e.Type, Match: orDefault(e.Match, store.MatchNewest), ConsumeRepairs: e.ConsumeRepairs,
			}
			if edge.Pipeline == p.Code {
				edge.Pipeline = ""
			}
			t.DependsOn = append(t.DependsOn, edge)
		}
		p.Tasks = append(p.Tasks, t)
	}
	return p
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// sameMeaning reports whether the text declares exactly p.
func sameMeaning(text []byte, p store.DesiredPipeline) bool {
	r := newReader("", map[thing]place{})
	read, ok := r.read(text)
	read.Origin = ""
	return ok && len(r.Problems) == 0 && reflect.DeepEqual(read, p)
}

// render writes a pipeline as a person would: defaults left out, statements as blocks, lists of columns as lists. What
// it returns has been read back and is p.
func render(p store.DesiredPipeline) ([]byte, error) {
	file := mapping()
	put(file, "pipeline", scalar(p.Code))
	put(file, "name", scalar(p.Name))
	putText(file, "description", p.Description, "")
	put(file, "refresh_type", scalar(p.RefreshType))
	putText(file, "schedule", p.Schedule, "")
	putText(file, "timezone", p.Timezone, "")
	if p.SLAHours != nil {
		put(file, "sla_hours", scalar(strconv.FormatFloat(*p.SLAHours, 'f', -1, 64)))
	}
	if len(p.Notifications) > 0 {
		webhooks := mapping()
		for _, name := range slices.Sorted(maps.Keys(p.Notifications)) {
			events := list()
			events.Style = yaml.FlowStyle
			for _, event := range p.Notifications[name] {
				events.Content = append(events.Content, scalar(event))
			}
			webhooks.Content = append(webhooks.Content, scalar(name), events)
		}
		put(file, "notifications", webhooks)
	}
	edges := list()
	for _, e := range p.DependsOn {
		edges.Content = append(edges.Content, edgeNode("pipeline", e.Pipeline, e.Type, e.Match, e.ConsumeRepairs))
	}
	putList(file, "depends_on", edges)
	tasks := list()
	for _, t := range p.Tasks {
		tasks.Content = append(tasks.Content, taskNode(t))
	}
	putList(file, "tasks", tasks)

	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(file); err != nil {
		return nil, fault.New(fault.FileInvalid, "pipeline %s cannot be written as YAML: %w", p.Code, err)
	}
	if !sameMeaning(out.Bytes(), p) {
		return nil, fault.New(fault.FileInvalid, "pipeline %s holds a value that a pipeline file cannot hold", p.Code).
			WithHint("etl-craft validate --pipeline %s", p.Code)
	}
	return out.Bytes(), nil
}

func taskNode(t store.DesiredTask) *yaml.Node {
	task := mapping()
	put(task, "task", scalar(t.Code))
	putText(task, "type", t.Type, "ETL")
	if t.Handler != "SQL" {
		put(task, "handler", scalar(t.Handler))
	}
	edges := list()
	for _, e := range t.DependsOn {
		edges.Content = append(edges.Content, edgeNode("task", reference(e), e.Type, e.Match, e.ConsumeRepairs))
	}
	putList(task, "depends_on", edges)
	condition := t.RunCondition
	if condition == "N" {
		condition = strconv.Itoa(t.ConditionCount)
	}
	putText(task, "run_condition", condition, "ALL")
	if len(t.Params) > 0 {
		params := mapping()
		for _, name := range paramOrder(t.Params) {
			params.Content = append(params.Content, scalar(name), paramNode(t.Params[name]))
		}
		put(task, "params", params)
	}
	return task
}

// edgeNode is the code alone when everything else is the default.
func edgeNode(key, code, on, match string, repairs bool) *yaml.Node {
	if on == store.OnSuccess && match == store.MatchNewest && repairs {
		return scalar(code)
	}
	edge := mapping()
	edge.Style = yaml.FlowStyle
	put(edge, key, scalar(code))
	put(edge, "on", scalar(on))
	putText(edge, "match", strings.ToLower(match), strings.ToLower(store.MatchNewest))
	if !repairs {
		put(edge, "consume_repairs", scalar("false"))
	}
	return edge
}

// first are the parameters that say what a task does; the others follow by name.
var first = []string{"SQL_ACTION", "TARGET_OBJECT", "SOURCE_SQL_FILE", "SOURCE_SQL", "MERGE_KEY", "MERGE_COMPARE_COLUMNS"}

func paramOrder(params map[string]string) []string {
	var order []string
	for _, name := range first {
		if _, ok := params[name]; ok {
			order = append(order, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(first, name) {
			order = append(order, name)
		}
	}
	return order
}

var (
	columns = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\|[A-Za-z_][A-Za-z0-9_]*)+$`)
	bare    = regexp.MustCompile(`^(true|false|0|[1-9][0-9]*(\.[0-9]+)?|0\.[0-9]+)$`)
)

func paramNode(value string) *yaml.Node {
	if !columns.MatchString(value) {
		return scalar(value)
	}
	items := list()
	items.Style = yaml.FlowStyle
	for _, item := range strings.Split(value, "|") {
		items.Content = append(items.Content, scalar(item))
	}
	return items
}

// scalar is a text that reads back as written. Numbers and true or false need no quotes, since a scalar is its text.
func scalar(value string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	switch {
	case bare.MatchString(value):
		node.Tag = ""
	case isBlock(value):
		node.Style = yaml.LiteralStyle
	case needsEscapes(value):
		node.Style = yaml.DoubleQuotedStyle
	default:
		var plain yaml.Node
		if err := plain.Encode(value); err == nil {
			return &plain
		}
	}
	return node
}

// isBlock reports whether a block of lines can show the text.
func isBlock(value string) bool {
	if !strings.Contains(value, "\n") || needsEscapes(strings.ReplaceAll(value, "\n", "")) {
		return false
	}
	firstLine, _, _ := strings.Cut(value, "\n")
	return firstLine != "" && !strings.HasPrefix(value, " ") && !strings.HasPrefix(value, "\t")
}

func needsEscapes(value string) bool {
	return !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool {
		return r != '\t' && !unicode.IsPrint(r)
	})
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

func list() *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode} }

// put adds one of the file's own keys, which need no quotes: on among them, a boolean to old readers of YAML only.
func put(to *yaml.Node, name string, value *yaml.Node) {
	to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
}

func putText(to *yaml.Node, name, value, otherwise string) {
	if value != otherwise {
		put(to, name, scalar(value))
	}
}

func putList(to *yaml.Node, name string, items *yaml.Node) {
	if len(items.Content) > 0 {
		put(to, name, items)
	}
}
