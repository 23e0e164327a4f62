// Package sql runs SQL tasks: the user's one read-only SELECT, wrapped in one of eight actions.
//
// A task goes from parameters (params.go, spec.go) through an inspection that only reads (inspect.go) to a plan
// (plan.go and one file per action), which warehouses.Execute carries out (run.go).
package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// Handler is the handler SQL.
type Handler struct{}

// Name implements handlers.Handler.
func (Handler) Name() string { return "SQL" }

// Params implements handlers.Handler.
func (Handler) Params() []handlers.Param { return params }

// Check implements handlers.Handler.
func (Handler) Check(env *handlers.Env, task *handlers.Task) []fault.Problem {
	sp, problems := parse(env, task)
	if sp.Select != nil {
		if misread := sp.Select.Misread(); len(misread) > 0 {
			file, parameter := task.Params["SOURCE_SQL_FILE"], "SOURCE_SQL"
			if file != "" {
				parameter = "SOURCE_SQL_FILE"
			}
			problems = append(problems, asProblems(parameter, file, &fault.Error{Problems: misread})...)
		}
	}
	for i := range problems {
		problems[i].Pipeline, problems[i].Task = task.Pipeline.Code, task.Code
	}
	return problems
}

// ReportsRows implements handlers.Handler.
func (Handler) ReportsRows(task *handlers.Task) bool {
	action := task.Params["SQL_ACTION"]
	return action != SetupTable && action != DropTable
}

// TargetName is the qualified name of a task's target as the warehouse folds it, "" when it is not a good name.
func TargetName(env *handlers.Env, task *handlers.Task) string {
	name, ok := targetName(env.Dialect, task.Params["TARGET_OBJECT"])
	if !ok {
		return ""
	}
	if name.Database == "" {
		name.Database = env.Database
	}
	return name.String()
}

// parsed is parse with all problems as one error.
func parsed(env *handlers.Env, task *handlers.Task) (*spec, error) {
	sp, problems := parse(env, task)
	if len(problems) == 0 {
		return sp, nil
	}
	messages := make([]string, len(problems))
	for i, p := range problems {
		messages[i] = p.Message
	}
	e := fault.New(problems[0].Code, "%s", strings.Join(messages, "; "))
	e.Hint, e.Problems = problems[0].Hint, problems
	e.Action, e.Target = sp.Action, task.Params["TARGET_OBJECT"]
	return nil, e
}

// wrap gives an error the action and the target.
func (sp *spec) wrap(err error) error {
	if err == nil {
		return nil
	}
	e := fault.As(err)
	if e.Action == "" {
		e.Action, e.Target = sp.Action, sp.Target.String()
	}
	return e
}

// settles reports whether counts of an earlier attempt belong to the task run's.
func settles(action string) bool {
	return slices.Contains([]string{SCD1Merge, SCD2Merge, DeleteRows}, action)
}

func (sp *spec) String() string {
	if sp.Label == "" {
		return fmt.Sprintf("%s %s", sp.Action, sp.Target)
	}
	return fmt.Sprintf("%s %s from %s", sp.Action, sp.Target, sp.Label)
}
