package sql

import (
	"context"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Plan implements handlers.Handler.
func (Handler) Plan(ctx context.Context, env *handlers.Env, task *handlers.Task, dry *handlers.Dry) (*warehouses.Plan, error) {
	sp, err := parsed(env, task)
	if err != nil {
		return nil, err
	}
	if sp.Target.Database == "" {
		sp.Target.Database = dry.Session.Facts().Database
	}
	if by := blockedBy(env.Dialect, sp, dry); by != "" {
		return &warehouses.Plan{Action: sp.Action, Target: sp.Target.String(), Source: sp.Label, BlockedBy: by}, nil
	}
	var source, probe string
	if sp.Select != nil {
		date := warehouses.Date(dry.RunDate)
		if source, err = sp.Select.Substitute(tokens(sp, task.Pipeline, "<pipeline_run_id>", "<task_run_id>", date)); err != nil {
			return nil, err
		}
		if probe, err = sp.Select.Substitute(tokens(sp, task.Pipeline, "0", "0", date)); err != nil {
			return nil, err
		}
	}
	in, err := inspect(ctx, env, dry.Session, sp, probe)
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
	return plan, pretend(ctx, env.Dialect, dry, in, plan)
}

// blockedBy names an earlier task without which the shape of the target, or of a table that the SELECT reads, is not
// known.
func blockedBy(d *warehouses.Dialect, sp *spec, dry *handlers.Dry) string {
	if by := dry.OpenBy(sp.Target); by != "" {
		return by
	}
	if sp.Select == nil {
		return ""
	}
	for _, t := range sp.Select.Tables() {
		name := warehouses.QualifiedName{Database: t.Database.Name, Schema: t.Schema.Name, Table: t.Name.Name}
		if by := dry.OpenBy(name); by != "" {
			return by
		}
	}
	return ""
}

// pretend gives the target in the dry session the shape that the plan would, for the tasks planned after it. Where that
// would make others wait for the table, the plan says that its shape is open.
func pretend(ctx context.Context, d *warehouses.Dialect, dry *handlers.Dry, in *inspection, plan *warehouses.Plan) error {
	if in.table != nil && slices.EqualFunc(in.table.Columns, plan.Columns, func(a warehouses.TableColumn, b warehouses.Column) bool {
		return strings.EqualFold(a.Name, b.Name) && a.Type.SQL == b.Type.SQL
	}) || in.table == nil && plan.Columns == nil {
		return nil
	}
	unshown := d.SchemaFirst && in.table == nil && !in.schema || d.Reshapes && plan.Columns == nil
	if !d.Transactional || unshown || in.table != nil && !d.QuietDDL && !dry.Made(in.target) {
		plan.Open = true
		return nil
	}
	for _, statement := range pretence(d, in, plan.Columns) {
		if _, err := dry.Session.Exec(ctx, statement); err != nil {
			return err
		}
	}
	dry.Make(in.target)
	return nil
}

// pretence are the statements that give the target these columns, without rows where it is made anew; none drop it.
func pretence(d *warehouses.Dialect, in *inspection, columns []warehouses.Column) []warehouses.SQL {
	if in.table != nil && in.replacement == nil {
		var add []warehouses.SQL
		for _, c := range columns[len(in.table.Columns):] {
			add = append(add, d.Render("add_column", frame{Target: d.Table(in.target), Definition: d.Ident(c.Name) + " " + c.Type.SQL}))
		}
		return add
	}
	var out []warehouses.SQL
	if in.table != nil && d.Reshapes {
		for _, s := range newReshape(d, in.table, columns).steps(d.Table(in.target), in.replacement) {
			out = append(out, s.SQL)
		}
		return out
	}
	var generator warehouses.SQL
	if in.table != nil {
		out = append(out, d.Render("drop_table", frame{Table: d.Table(in.target)}))
		if c := in.table.Column(rowID); c != nil {
			generator = c.Generator
		}
	}
	if columns == nil {
		return out
	}
	if in.table == nil && !in.schema {
		out = append(out, d.Render("create_schema", frame{Schema: d.Ident(in.target.Schema)}))
	}
	f := frame{New: d.Table(in.target)}
	for _, c := range columns {
		definition := d.Ident(c.Name) + " " + c.Type.SQL
		if strings.EqualFold(c.Name, rowID) {
			if d.Sequences && generator == "" {
				out = append(out, d.Render("create_sequence", frame{Schema: sequence(d, in.target)}))
			}
			definition = d.Ident(c.Name) + " " + d.RowID(d, in.target, generator)
		}
		f.Definitions = append(f.Definitions, definition)
	}
	out = append(out, d.Render("create_table", f))
	if in.replacement != nil {
		out = append(out, in.replacement.Carry...)
	}
	return out
}
