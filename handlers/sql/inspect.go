package sql

import (
	"context"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/sqlscan"
	"github.com/etl-craft/etl-craft/warehouses"
)

// inspection is all that planning needs to know of the warehouse and the Engine DB. It only reads.
type inspection struct {
	facts   warehouses.Facts
	target  warehouses.QualifiedName
	table   *warehouses.Table   // nil when the target does not exist
	schema  bool                // the target's schema exists
	columns []warehouses.Column // of the SELECT
	source  warehouses.SQL      // the SELECT with its tokens replaced
	empty   bool                // a merge's target has no rows
	record  store.TargetRecord
}

// tokens are the replacements of a SELECT's tokens.
func tokens(sp *spec, pipeline store.Pipeline, runID, taskRun string, runDate warehouses.SQL) map[sqlscan.Token]string {
	filter := "pipeline_run_id = " + runID
	if pipeline.RefreshType == "FULL" {
		filter = "1=1"
	}
	all := map[sqlscan.Token]string{
		sqlscan.PipelineID:          string(warehouses.Int(pipeline.ID)),
		sqlscan.PipelineRunID:       runID,
		sqlscan.TaskRunID:           taskRun,
		sqlscan.PipelineRunIDFilter: filter,
		sqlscan.RunDate:             string(runDate),
	}
	for token := range all {
		if !sp.Switches[token] {
			delete(all, token)
		}
	}
	return all
}

// inspect reads target and SELECT. probe is the SELECT with values that the warehouse can parse.
func inspect(ctx context.Context, env *handlers.Env, s warehouses.Session, sp *spec, probe string) (*inspection, error) {
	in := &inspection{facts: s.Facts(), target: sp.Target}
	if in.target.Database == "" {
		in.target.Database = in.facts.Database
	}
	if !strings.EqualFold(in.target.Database, in.facts.Database) && !env.Dialect.NamesDatabase {
		return nil, refuse(fault.TargetMissing, "write schema.table", "the warehouse connection is in database %s and cannot write to database %s", in.facts.Database, in.target.Database)
	}
	in.target.Database = in.facts.Database
	var err error
	if in.table, err = s.Table(ctx, in.target); err != nil {
		return nil, err
	}
	if err := in.checkTarget(sp, env); err != nil {
		return nil, err
	}
	if in.table == nil {
		if in.schema, err = s.SchemaExists(ctx, in.target); err != nil {
			return nil, err
		}
	}
	if in.record, err = env.TargetRecord(ctx, in.name()); err != nil {
		return nil, err
	}
	if sp.Select != nil {
		if err := in.describe(ctx, env.Dialect, s, sp, probe); err != nil {
			return nil, err
		}
	}
	if in.table != nil && slices.Contains(merges, sp.Action) {
		n, err := s.Int(ctx, env.Dialect.Render("has_rows", frame{Table: env.Dialect.Table(in.target)}))
		if err != nil {
			return nil, err
		}
		in.empty = n == 0
	}
	return in, nil
}

// name keys what the Engine DB knows of the target.
func (in *inspection) name() store.TargetName {
	return store.TargetName{Identity: in.facts.Identity, Name: in.target.Key()}
}

// checkTarget refuses targets that the action cannot work on, before the SELECT is looked at.
func (in *inspection) checkTarget(sp *spec, env *handlers.Env) error {
	if in.table == nil {
		if slices.Contains([]string{CreateTable, SetupTable, DropTable}, sp.Action) {
			return nil
		}
		return refuse(fault.TargetMissing, "give it a SETUP_TABLE task that runs before, or create it yourself", "the target %s does not exist", in.target)
	}
	if in.table.Kind != "table" {
		return refuse(fault.TargetKind, "choose another TARGET_OBJECT", "the target %s is a %s", in.target, in.table.Kind)
	}
	formatMatters := []string{CreateTable, SetupTable, OverwriteTable, SCD1Merge, SCD2Merge}
	if sp.Format != "" && in.table.Format != sp.Format && slices.Contains(formatMatters, sp.Action) {
		return refuse(fault.TargetFormat, "set TABLE_FORMAT to "+in.table.Format+", or choose another target", "the target %s has format %s, the task asks for %s", in.target, in.table.Format, sp.Format)
	}
	return nil
}

// describe learns the SELECT's columns and refuses those the engine could not write.
func (in *inspection) describe(ctx context.Context, d *warehouses.Dialect, s warehouses.Session, sp *spec, probe string) error {
	if err := s.Confirm(ctx, warehouses.SQL(probe)); err != nil {
		return err
	}
	columns, err := s.Describe(ctx, warehouses.SQL(probe))
	if err != nil {
		return err
	}
	in.columns = columns
	seen := map[string]bool{}
	for _, c := range columns {
		lower := strings.ToLower(c.Name)
		switch {
		case isEngineColumn(c.Name):
			return refuse(fault.ColumnReserved, "list the columns you need, or give it another name with AS", "the SELECT returns %s, which the engine writes itself", c.Name)
		case !plainName.MatchString(c.Name) || c.Name != d.FoldName(c.Name):
			return refuse(fault.ColumnName, "give it a plain name with AS: letters, digits and _", "the SELECT returns a column named %q, which would need quoting", c.Name)
		case seen[lower]:
			return refuse(fault.ColumnDuplicate, "give one of them another name with AS", "the SELECT returns two columns named %s", c.Name)
		case c.Type.SQL == "":
			return refuse(fault.ColumnUntyped, "cast it, such as CAST(NULL AS INTEGER) AS "+c.Name, "the SELECT returns %s as a NULL without a type", c.Name)
		}
		seen[lower] = true
	}
	for _, use := range sp.columnUses() {
		if !seen[strings.ToLower(use.column)] {
			if sp.Action == SetupTable {
				continue
			}
			return refuse(fault.ColumnMissing, "return it from the SELECT", "%s names %s, which the SELECT does not return", use.parameter, use.column)
		}
	}
	return nil
}

func refuse(code fault.Code, hint, format string, args ...any) error {
	return fault.New(code, format, args...).WithHint("%s", hint)
}
