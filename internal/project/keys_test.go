package project_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/project"
)

func TestSchema(t *testing.T) {
	params := []handlers.Param{
		{Name: "MERGE_KEY", Type: handlers.ColumnsParam, Help: "columns"},
		{Name: "SQL_ACTION", Type: handlers.EnumParam, Allowed: []string{"CREATE_TABLE"}, Help: "action"},
	}
	text := project.Schema(params)
	var schema struct {
		Schema string                    `json:"$schema"`
		Defs   map[string]map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema is %s", schema.Schema)
	}
	for _, section := range project.Sections() {
		definition := schema.Defs[strings.ReplaceAll(section.Name, " ", "_")]
		properties, _ := definition["properties"].(map[string]any)
		for _, key := range section.Keys {
			if property, ok := properties[key.Name].(map[string]any); !ok || property["description"] != key.Help {
				t.Errorf("the schema lacks %s of %s", key.Name, section.Name)
			}
		}
	}
	properties := schema.Defs["params"]["properties"].(map[string]any)
	for _, p := range params {
		if _, ok := properties[p.Name]; !ok {
			t.Errorf("the schema lacks the parameter %s", p.Name)
		}
	}
	// Every reference leads somewhere.
	for _, part := range strings.Split(string(text), `"$ref": "#/$defs/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if _, ok := schema.Defs[name]; !ok {
			t.Errorf("#/$defs/%s does not exist", name)
		}
	}
}
