package sql

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/sqlscan"
	"github.com/etl-craft/etl-craft/warehouses"
)

// inspection is all that planning needs to know of the warehouse and the Engine DB. It only reads.
type inspection struct {
	facts       warehouses.Facts
	target      warehouses.QualifiedName
	table       *warehouses.Table       // nil when the target does not exist
	replacement *warehouses.Replacement // of a table that the action replaces or drops
	schema      bool                    // the target's schema exists
	columns     []warehouses.Column     // of the SELECT, with the types that a new table would store
	converted   bool                    // storing changes the type of a column of the SELECT
	source      warehouses.SQL          // the SELECT with its tokens replaced
	empty       bool                    // the target of a merge, or of a setup for one, has no rows
	record      store.TargetRecord
	nextRowID   int64    // where a sequence would begin that ROW_ID lacks
	left        []string // scratch tables beside the target that earlier attempts of this task run left
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
	if strings.EqualFold(in.target.Database, in.facts.Database) {
		in.target.Database = in.facts.Database
	}
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
	if in.table != nil && (sp.Action == CreateTable || sp.Action == DropTable || sp.Action == OverwriteTable && env.Dialect.Recreates) {
		if in.replacement, err = s.Replacement(ctx, in.table); err != nil {
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
	if in.table != nil && (slices.Contains(merges, sp.Action) || sp.Action == SetupTable && len(sp.Compare) > 0) {
		n, err := s.Int(ctx, env.Dialect.Render("has_rows", frame{Table: env.Dialect.Table(in.target)}))
		if err != nil {
			return nil, err
		}
		in.empty = n == 0
	}
	return in, in.readNextRowID(ctx, env.Dialect, s)
}

func (in *inspection) readNextRowID(ctx context.Context, d *warehouses.Dialect, s warehouses.Session) (err error) {
	if in.table == nil || !d.Sequences {
		return nil
	}
	if c := in.table.Column(rowID); c != nil && c.Generator == "" && c.Type.Kind == warehouses.Integer {
		in.nextRowID, err = s.Int(ctx, d.Render("next_row_id", frame{Target: d.Table(in.target)}))
	}
	return err
}

// name keys what the Engine DB knows of the target.
func (in *inspection) name() store.TargetName {
	return store.TargetName{Identity: in.facts.Identity, Name: in.target.Key()}
}

// checkTarget refuses targets that the action cannot work on, before the SELECT is looked at.
func (in *inspection) checkTarget(sp *spec, env *handlers.Env) error {
	if in.table == nil {
		if slices.Contains([]string{CreateTable, SetupTable, DropTable, rehash, upgradeTargets}, sp.Action) {
			return nil
		}
		return refuse(fault.TargetMissing, "give it a SETUP_TABLE task that runs before, or create it yourself", "the target %s does not exist", in.target)
	}
	if in.table.Kind != "table" {
		return refuse(fault.TargetKind, "choose another TARGET_OBJECT", "the target %s is %s", in.target, withArticle(in.table.Kind))
	}
	formatMatters := []string{CreateTable, SetupTable, OverwriteTable, SCD1Merge, SCD2Merge}
	if sp.Format != "" && in.table.Format != sp.Format && slices.Contains(formatMatters, sp.Action) {
		return refuse(fault.TargetFormat, "set TABLE_FORMAT to "+in.table.Format+", or choose another target", "the target %s has format %s, the task asks for %s", in.target, in.table.Format, sp.Format)
	}
	return nil
}

func withArticle(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// describe learns the SELECT's columns and refuses those the engine could not write.
func (in *inspection) describe(ctx context.Context, d *warehouses.Dialect, s warehouses.Session, sp *spec, probe string) error {
	if err := s.Confirm(ctx, warehouses.SQL(probe)); err != nil {
		return staging(err, probe)
	}
	columns, err := s.Describe(ctx, warehouses.SQL(probe))
	if err != nil {
		return staging(err, probe)
	}
	in.columns = columns
	seen := map[string]bool{}
	var reserved, unplain, repeated, untyped, unstored []string
	if d.Stored != nil {
		for i, c := range columns {
			stored := d.Stored(c.Type, sp.Format)
			if stored.SQL == "" {
				if in.creates(sp, c.Name) {
					unstored = append(unstored, c.Name+" ("+string(c.Type.SQL)+")")
				}
				continue
			}
			columns[i].Type = stored
			in.converted = in.converted || stored.SQL != c.Type.SQL
		}
	}
	for _, c := range columns {
		lower := strings.ToLower(c.Name)
		switch {
		case isEngineColumn(c.Name):
			reserved = append(reserved, c.Name)
		case !plainName.MatchString(c.Name) || c.Name != d.FoldName(c.Name):
			unplain = append(unplain, strconv.Quote(c.Name))
		case seen[lower]:
			repeated = append(repeated, c.Name)
		case c.Type.Untyped && in.creates(sp, c.Name):
			untyped = append(untyped, c.Name)
		}
		seen[lower] = true
	}
	switch {
	case len(reserved) > 0:
		return refuse(fault.ColumnReserved, "list the columns you need, or give them other names with AS", "the SELECT returns %s, which the engine writes itself", strings.Join(reserved, ", "))
	case len(unplain) > 0:
		return refuse(fault.ColumnName, "give them plain names with AS: "+plainNames(d), unplainColumns, strings.Join(unplain, ", "))
	case len(repeated) > 0:
		return refuse(fault.ColumnDuplicate, "give one of them another name with AS", repeatedColumns, strings.Join(repeated, ", "))
	case len(untyped) > 0:
		return refuse(fault.ColumnUntyped, "cast it, such as CAST(NULL AS INTEGER) AS "+untyped[0], "the SELECT gives NULL without a type as %s", strings.Join(untyped, ", "))
	}
	if len(unstored) > 0 {
		return refuse(fault.ColumnType, "cast them to another type in the SELECT, such as VARCHAR", "tables of %s cannot store the type of %s", d.Product, strings.Join(unstored, ", "))
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

// plainNames says which names need no quoting.
func plainNames(d *warehouses.Dialect) string {
	switch d.Folds {
	case warehouses.FoldLower:
		return "lower-case letters, digits and _"
	case warehouses.FoldUpper:
		return "upper-case letters, digits and _"
	}
	return "letters, digits and _"
}

// creates reports whether the action makes a column of this name, with the type that the SELECT gives it.
func (in *inspection) creates(sp *spec, column string) bool {
	if in.table == nil || sp.Action == CreateTable {
		return true
	}
	return sp.Action != SetupTable && in.table.Column(column) == nil
}

// staging says of an error of the warehouse that it is about the SELECT, which is what the user knows of.
func staging(err error, source string) error {
	e := fault.As(err)
	if e.Code == fault.StatementFailed && e.Step == "" {
		e.Step, e.SQL = "stage the SELECT", source
	}
	return e
}

func refuse(code fault.Code, hint, format string, args ...any) error {
	return fault.New(code, format, args...).WithHint("%s", hint)
}
