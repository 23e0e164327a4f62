package config

import (
	"slices"
	"strconv"
	"strings"
)

// Schema is the JSON Schema (draft 2020-12) of etl-craft.yml, as definitions that refer to each other by #/$defs/NAME;
// the file itself is "config".
func Schema() map[string]any {
	return map[string]any{
		"variable":      map[string]any{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*\}`, "description": "taken from the environment or env_file"},
		"orchestration": object(orchestration, ""),
		"webhook":       object(webhook, ""),
		"notifications": map[string]any{"type": "object", "additionalProperties": map[string]any{"$ref": "#/$defs/webhook"}},
		"direct":        object(direct, Postgres),
		"engine":        oneOf(engine, engineTypes, SQLite),
		"warehouse":     oneOf(warehouse, []string{DuckDB, DuckDBIceberg, Postgres, Trino, Snowflake, Databricks}, ""),
		"profile":       object(profile, ""),
		"config":        object(top, ""),
	}
}

// oneOf is a section that has other keys for each type; otherwise is the type without a type key.
func oneOf(keys []Key, variants []string, otherwise string) map[string]any {
	options := make([]any, len(variants))
	for i, variant := range variants {
		option := object(keys, variant)
		properties := option["properties"].(map[string]any)
		required, _ := option["required"].([]string)
		if variant != otherwise && !slices.Contains(required, "type") {
			required = append(required, "type")
		}
		properties["type"] = map[string]any{"const": variant}
		switch variant {
		case DuckDB:
			properties["table_format"] = map[string]any{"const": Native}
		case DuckDBIceberg:
			properties["type"] = map[string]any{"const": DuckDB}
			properties["table_format"] = map[string]any{"const": Iceberg}
			required = append(required, "table_format")
		}
		if required != nil {
			option["required"] = required
		}
		options[i] = option
	}
	return map[string]any{"type": "object", "oneOf": options}
}

func object(keys []Key, variant string) map[string]any {
	properties := map[string]any{}
	var required []string
	_, hasURL := find(keys, "url", variant)
	for _, key := range keys {
		if variant != "" && !key.takes(variant) {
			continue
		}
		properties[key.Name] = key.schema()
		if key.Required && !(hasURL && isServerKey(key.Name)) {
			required = append(required, key.Name)
		}
	}
	schema := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if required != nil {
		schema["required"] = required
	}
	if hasURL {
		schema["anyOf"] = []any{
			map[string]any{"required": []string{"url"}},
			map[string]any{"required": []string{"host", "database", "user"}},
		}
	}
	return schema
}

func (k Key) schema() map[string]any {
	schema := map[string]any{"description": k.Help}
	variable := map[string]any{"$ref": "#/$defs/variable"}
	switch k.Kind {
	case Block:
		if k.Name == "profiles" {
			schema["type"] = "object"
			schema["minProperties"] = 1
			schema["additionalProperties"] = map[string]any{"$ref": "#/$defs/profile"}
			return schema
		}
		schema["$ref"] = "#/$defs/" + k.Name
	case Whole, Seconds, Minutes:
		number := map[string]any{"type": "integer", "minimum": k.Min, "maximum": k.most()}
		schema["anyOf"] = []any{number, variable}
		if n, err := strconv.Atoi(k.Default); err == nil {
			schema["default"] = n
		}
	case YesNo:
		schema["anyOf"] = []any{map[string]any{"type": "boolean"}, variable}
		schema["default"] = k.Default == "true"
	case Choices:
		schema["type"] = "array"
		schema["items"] = map[string]any{"enum": k.Allowed}
		schema["default"] = strings.Split(k.Default, ", ")
	case Choice:
		schema["anyOf"] = []any{map[string]any{"enum": k.Allowed}, variable}
		if k.Default != "" {
			schema["default"] = k.Default
		}
	default:
		schema["type"] = []string{"string", "number", "boolean"}
		if k.Default != "" {
			schema["default"] = k.Default
		}
	}
	return schema
}
