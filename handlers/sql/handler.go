// Package sql runs SQL tasks: the user's one read-only SELECT, wrapped in one of eight actions.
//
// A task goes from parameters (params.go, spec.go) through an inspection that only reads (inspect.go) to a plan
// (plan.go and one file per action), which warehouses.Execute carries out (run.go).
package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Handler is the handler SQL.
type Handler struct{}

// Name implements handlers.Handler.
func (Handler) Name() string { return "SQL" }

// Params implements handlers.Handler.
func (Handler) Params() []handlers.Param { return params }

// Check implements handlers.Handler.
func (Handler) Check(env *handlers.Env, task *handlers.Task) []fault.Problem {
	_, problems := parse(env, task)
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

// Plan implements handlers.Handler.
func (Handler) Plan(ctx context.Context, env *handlers.Env, task *handlers.Task, runDate time.Time, dry warehouses.Session) (*warehouses.Plan, error) {
	sp, err := parsed(env, task)
	if err != nil {
		return nil, err
	}
	if sp.Target.Database == "" {
		sp.Target.Database = dry.Facts().Database
	}
	var source, probe string
	if sp.Select != nil {
		date := warehouses.Date(runDate)
		if source, err = sp.Select.Substitute(tokens(sp, task.Pipeline, "<pipeline_run_id>", "<task_run_id>", date)); err != nil {
			return nil, err
		}
		if probe, err = sp.Select.Substitute(tokens(sp, task.Pipeline, "0", "0", date)); err != nil {
			return nil, err
		}
	}
	in, err := inspect(ctx, env, dry, sp, probe)
	if fault.Has(err, fault.StatementFailed) {
		return &warehouses.Plan{Action: sp.Action, Target: sp.Target.String(), Source: sp.Label, BlockedBy: fault.As(err).Message}, nil
	}
	if err != nil {
		return nil, sp.wrap(err)
	}
	in.source = warehouses.SQL(source)
	st := stamps{
		pipelineID: warehouses.Int(task.Pipeline.ID), pipelineRunID: "<pipeline_run_id>", taskRunID: "<task_run_id>",
		instant: "<now>", user: env.Dialect.Text(in.facts.User), scratch: "<task_run_id>_<token>",
	}
	plan, err := newPlanner(env, sp, in, st, true).build()
	if err != nil {
		return nil, sp.wrap(err)
	}
	return plan, pretend(ctx, env, dry, in, plan)
}

// pretend makes the table that a plan would create exist in the dry session, for the tasks planned after it.
func pretend(ctx context.Context, env *handlers.Env, dry warehouses.Session, in *inspection, plan *warehouses.Plan) error {
	if in.table != nil || plan.Columns == nil {
		return nil
	}
	d := env.Dialect
	if !in.schema {
		if _, err := dry.Exec(ctx, d.Render("create_schema", frame{Schema: d.Ident(in.target.Schema)})); err != nil {
			return err
		}
	}
	f := frame{New: d.Table(in.target)}
	for _, c := range plan.Columns {
		definition := d.Ident(c.Name) + " " + c.Type.SQL
		if strings.EqualFold(c.Name, rowID) {
			if d.Sequences {
				if _, err := dry.Exec(ctx, d.Render("create_sequence", frame{Schema: sequence(d, in.target)})); err != nil {
					return err
				}
			}
			definition = d.Ident(c.Name) + " " + d.RowID(d, in.target, "")
		}
		f.Definitions = append(f.Definitions, definition)
	}
	_, err := dry.Exec(ctx, d.Render("create_table", f))
	return err
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
