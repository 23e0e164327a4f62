package project

import (
	"encoding/json"
	"math"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
)

// Key declares one key of a pipeline file. Reading, suggestions, the JSON Schema and the reference page come from it.
type Key struct {
	Name     string
	Kind     Kind
	Allowed  []string // of a Choice; case does not count
	Default  string   // "" for none
	Required bool
	Help     string
}

// Kind is what the value of a Key must be.
type Kind string

// Kinds of values.
const (
	Code    Kind = "code" // a letter, then letters, digits and _, at most 128
	Text    Kind = "text"
	Number  Kind = "number above 0"
	Choice  Kind = "one of"
	YesNo   Kind = "true or false"
	List    Kind = "list"
	Mapping Kind = "mapping"
	Count   Kind = "ALL, ANY or a whole number of at least 1"
)

// Section is a mapping of a pipeline file with the keys it takes.
type Section struct {
	Name string // pipeline, task, and what their depends_on lists hold
	Keys []Key
}

var (
	onKey    = Key{Name: "on", Kind: Choice, Allowed: []string{store.OnSuccess, store.OnFailure, store.OnAlways, store.OnHasData}, Default: store.OnSuccess, Help: "how it must have ended"}
	matchKey = Key{Name: "match", Kind: Choice, Allowed: []string{"newest", "same_date"}, Default: "newest", Help: "which run of the other pipeline counts: its newest, or the one of the same date"}
	again    = Key{Name: "consume_repairs", Kind: YesNo, Default: "true", Help: "whether a repaired run of the other pipeline counts again"}

	pipelineKeys = []Key{
		{Name: "pipeline", Kind: Code, Required: true, Help: "PIPELINE_CODE: a letter, then letters, digits and _; at most 128"},
		{Name: "name", Kind: Text, Default: "the code", Help: "name for people"},
		{Name: "description", Kind: Text, Help: "what the pipeline is for"},
		{Name: "refresh_type", Kind: Choice, Allowed: []string{"INCREMENTAL", "FULL"}, Default: "INCREMENTAL", Help: "what $$pipeline_run_id_filter becomes: this run's rows, or all of them"},
		{Name: "schedule", Kind: Text, Help: "cron expression, kept for a scheduler or an orchestrator"},
		{Name: "timezone", Kind: Text, Help: "time zone of the schedule, such as Europe/Paris"},
		{Name: "sla_hours", Kind: Number, Help: "hours a run should take at most; may be a fraction"},
		{Name: "notifications", Kind: Mapping, Help: "webhooks of etl-craft.yml that this pipeline tells of other events: `NAME: [FAILED, SUCCESS]`, or `NAME: []` for none"},
		{Name: "depends_on", Kind: List, Help: "pipelines that must have run before: a code, or a mapping"},
		{Name: "tasks", Kind: List, Help: "the tasks"},
	}
	pipelineEdgeKeys = []Key{
		{Name: "pipeline", Kind: Code, Required: true, Help: "code of the pipeline waited for"},
		onKey, matchKey, again,
	}
	taskKeys = []Key{
		{Name: "task", Kind: Code, Required: true, Help: "TASK_CODE: a letter, then letters, digits and _; at most 128"},
		{Name: "type", Kind: Choice, Allowed: []string{"INGESTION", "ETL"}, Default: "ETL", Help: "for people: where the rows come from"},
		{Name: "handler", Kind: Text, Default: "SQL", Help: "what runs the task"},
		{Name: "depends_on", Kind: List, Help: "tasks that must have ended before: CODE, PIPELINE.CODE, or a mapping"},
		{Name: "run_condition", Kind: Count, Default: "ALL", Help: "how many of depends_on must hold"},
		{Name: "params", Kind: Mapping, Help: "parameters; a value is its text as written, a list is joined with |"},
	}
	taskEdgeKeys = []Key{
		{Name: "task", Kind: Text, Required: true, Help: "the task waited for: CODE, or PIPELINE.CODE"},
		onKey, matchKey, again,
	}
)

// Sections lists every key in the order of the reference.
func Sections() []Section {
	return []Section{
		{"pipeline", pipelineKeys}, {"pipeline dependency", pipelineEdgeKeys},
		{"task", taskKeys}, {"task dependency", taskEdgeKeys},
	}
}

func names(keys []Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.Name
	}
	return out
}

// Schema is one JSON Schema (draft 2020-12) for etl-craft.yml and for pipeline files, told apart by the key pipeline.
// params are the parameters that tasks may have.
func Schema(params []handlers.Param) []byte {
	defs := config.Schema()
	code := map[string]any{"type": "string", "pattern": codeRule.String()}
	list := func(of ...any) map[string]any {
		return map[string]any{"type": "array", "items": map[string]any{"anyOf": of}}
	}
	ref := func(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

	pipeline := object(pipelineKeys)
	properties := pipeline["properties"].(map[string]any)
	extend(properties["depends_on"], list(code, ref("pipeline_dependency")))
	extend(properties["notifications"], map[string]any{
		"type": "object", "additionalProperties": map[string]any{"type": "array", "items": map[string]any{"enum": config.Events}},
	})
	extend(properties["tasks"], list(ref("task")))
	task := object(taskKeys)
	properties = task["properties"].(map[string]any)
	extend(properties["depends_on"], list(map[string]any{"type": "string"}, ref("task_dependency")))
	extend(properties["params"], ref("params"))

	defs["pipeline"], defs["pipeline_dependency"] = pipeline, object(pipelineEdgeKeys)
	defs["task"], defs["task_dependency"] = task, object(taskEdgeKeys)
	defs["params"] = paramsSchema(params)
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "etl-craft.yml and pipelines/*.yml",
		"$defs":   defs,
		"if":      map[string]any{"required": []string{"pipeline"}},
		"then":    ref("pipeline"),
		"else":    ref("config"),
	}, "", "  ")
	if err != nil {
		panic("project: the JSON Schema does not encode: " + err.Error())
	}
	return append(text, '\n')
}

func extend(property any, by map[string]any) {
	for name, value := range by {
		property.(map[string]any)[name] = value
	}
}

func object(keys []Key) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, k := range keys {
		properties[k.Name] = k.schema()
		if k.Required {
			required = append(required, k.Name)
		}
	}
	schema := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if required != nil {
		schema["required"] = required
	}
	return schema
}

func (k Key) schema() map[string]any {
	schema := map[string]any{"description": k.Help}
	if k.Default != "" && k.Kind != Text {
		schema["default"] = k.Default
	}
	switch k.Kind {
	case Code:
		schema["type"] = "string"
		schema["pattern"] = codeRule.String()
	case Text:
		schema["type"] = scalars
	case Number:
		schema["type"] = "number"
		schema["exclusiveMinimum"] = 0
	case Choice:
		schema["enum"] = k.Allowed
	case YesNo:
		schema["type"] = "boolean"
		schema["default"] = k.Default == "true"
	case Count:
		schema["anyOf"] = []any{
			map[string]any{"enum": []string{"ALL", "ANY"}},
			map[string]any{"type": "integer", "minimum": 1, "maximum": math.MaxInt32},
		}
	}
	return schema
}

var scalars = []string{"string", "number", "boolean"}

// paramsSchema describes the parameters of tasks of every kind. Names that begin with X_ are the user's own.
func paramsSchema(params []handlers.Param) map[string]any {
	properties := map[string]any{}
	for _, p := range params {
		schema := map[string]any{"description": p.Help}
		switch p.Type {
		case handlers.BoolParam:
			schema["enum"] = []any{true, false, "true", "false"}
		case handlers.EnumParam:
			schema["enum"] = p.Allowed
		case handlers.ColumnsParam:
			schema["type"] = append([]string{"array"}, scalars...)
			schema["items"] = map[string]any{"type": scalars}
		case handlers.WholeParam:
			schema["anyOf"] = []any{map[string]any{"type": "integer", "minimum": 0, "maximum": math.MaxInt32}, map[string]any{"type": "string", "pattern": "^[0-9]+$"}}
		default:
			schema["type"] = scalars
		}
		properties[p.Name] = schema
	}
	return map[string]any{
		"type": "object", "properties": properties, "additionalProperties": false,
		"patternProperties": map[string]any{"^X_": map[string]any{"type": append([]string{"array"}, scalars...)}},
	}
}
