package handlers

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// ParamType is what a parameter's text must be.
type ParamType string

// Parameter types.
const (
	TextParam    ParamType = "text"
	BoolParam    ParamType = "true or false"
	EnumParam    ParamType = "one of"
	ColumnsParam ParamType = "columns separated by |"
	WholeParam   ParamType = "whole number"
	FactorParam  ParamType = "number of at least 1"
)

// Param declares one parameter. Parsing, validate, suggestions, the JSON Schema and the reference page come from it.
type Param struct {
	Name     string
	Type     ParamType
	Allowed  []string // of an EnumParam
	Default  string   // for the reference; "" for none
	Actions  []string // that take it; nil for all
	Required []string // actions that cannot do without it
	Storage  bool     // means something only where the dialect says so
	Help     string
}

// CommonParams are understood by every handler.
var CommonParams = []Param{
	{Name: "TASK_TIMEOUT_SECONDS", Type: WholeParam, Default: "orchestration.task_timeout_seconds", Help: "ends an attempt that runs longer; 0 is no limit"},
	{Name: "RETRIES", Type: WholeParam, Default: "orchestration.retries", Help: "how often a failed attempt is tried again, when its error may pass"},
	{Name: "RETRY_DELAY_SECONDS", Type: WholeParam, Default: "60", Help: "wait before the first retry"},
	{Name: "RETRY_BACKOFF", Type: FactorParam, Default: "2.0", Help: "each further wait is longer by this factor, at most an hour"},
	{Name: "DOCUMENTATION", Type: TextParam, Help: "what the task is for"},
}

var columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckParams finds what is wrong with values against the declared parameters: unknown names, names that do not apply
// to the action, missing ones and values of the wrong type. action may be "" when it is itself unknown.
func CheckParams(params []Param, values map[string]string, action string, storage []string) []fault.Problem {
	var problems []fault.Problem
	add := func(code fault.Code, name, hint, format string, args ...any) {
		problems = append(problems, fault.Problem{Level: "FAIL", Code: code, Parameter: name, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	known := map[string]Param{}
	var names []string
	for _, p := range params {
		known[p.Name] = p
		names = append(names, p.Name)
	}
	for _, name := range sortedKeys(values) {
		p, ok := known[name]
		switch {
		case strings.HasPrefix(name, "X_"):
		case !ok:
			hint := "names that begin with X_ are your own"
			if n := nearest.Of(name, names); n != "" {
				hint = "did you mean " + n + "?"
			}
			add(fault.ParameterUnknown, name, hint, "unknown parameter %s", name)
		case p.Storage && !slices.Contains(storage, name):
			hint := "remove it"
			if len(storage) > 0 {
				hint = "this warehouse takes " + strings.Join(storage, ", ")
			}
			add(fault.ParameterUnused, name, hint, "%s means nothing on this warehouse", name)
		case action != "" && p.Actions != nil && !slices.Contains(p.Actions, action):
			add(fault.ParameterUnused, name, "it is for "+strings.Join(p.Actions, ", "), "%s does not apply to %s", name, action)
		default:
			if want := p.wrong(values[name]); want != "" {
				add(fault.ParameterInvalid, name, "it takes "+want, "%s is %q", name, values[name])
			}
		}
	}
	for _, p := range params {
		if _, set := values[p.Name]; !set && slices.Contains(p.Required, action) {
			who := action
			if who == "" {
				who = "the task"
			}
			add(fault.ParameterMissing, p.Name, p.remedy(), "%s needs %s", who, p.Name)
		}
	}
	return problems
}

// remedy says what to set the parameter to.
func (p Param) remedy() string {
	if p.Type == EnumParam {
		return "set " + p.Name + " to " + strings.Join(p.Allowed, ", ")
	}
	return "set " + p.Name + ": " + p.Help
}

// wrong says what the parameter takes when value is not that, "" when it is.
func (p Param) wrong(value string) string {
	switch p.Type {
	case BoolParam:
		if value != "true" && value != "false" {
			return "true or false"
		}
	case EnumParam:
		if !slices.Contains(p.Allowed, value) {
			if n := nearest.Of(strings.ToUpper(value), p.Allowed); n != "" {
				return strings.Join(p.Allowed, ", ") + "; did you mean " + n + "?"
			}
			return strings.Join(p.Allowed, ", ")
		}
	case ColumnsParam:
		return wrongColumns(value)
	case WholeParam:
		if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < 0 {
			return fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32)
		}
	case FactorParam:
		if f, err := strconv.ParseFloat(value, 64); err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 1 {
			return "a number of at least 1"
		}
	case TextParam:
		if strings.TrimSpace(value) == "" {
			return "text that is not empty"
		}
	}
	return ""
}

func wrongColumns(value string) string {
	seen := map[string]bool{}
	for _, c := range Columns(value) {
		switch {
		case !columnName.MatchString(c):
			return "column names separated by |, of letters, digits and _"
		case seen[strings.ToLower(c)]:
			return "each column once"
		}
		seen[strings.ToLower(c)] = true
	}
	return ""
}

// Columns splits a list separated by |.
func Columns(value string) []string {
	parts := strings.Split(value, "|")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
	}
	return parts
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
