package sql

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Names of the two kinds of maintenance, where a task has its action.
const (
	rehash         = "REHASH"
	upgradeTargets = "UPGRADE_TARGETS"
)

// Targets implements handlers.Maintainer.
func (Handler) Targets(env *handlers.Env, tasks []*handlers.Task) []handlers.Target {
	byKey := map[string]*handlers.Target{}
	for _, t := range tasks {
		name, ok := targetName(env.Dialect, t.Params["TARGET_OBJECT"])
		if !ok {
			continue
		}
		if name.Database == "" {
			name.Database = env.Database
		}
		known := byKey[name.Key()]
		if known == nil {
			known = &handlers.Target{Name: name}
			byKey[name.Key()] = known
		}
		known.Tasks = append(known.Tasks, t)
	}
	var all []handlers.Target
	for _, t := range byKey {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b handlers.Target) int { return strings.Compare(a.Name.Key(), b.Name.Key()) })
	return all
}

// AuditColumns implements handlers.Maintainer.
func (Handler) AuditColumns(task *handlers.Task) []string {
	return auditColumns(task.Params["SQL_ACTION"])
}

// NeededColumns implements handlers.Maintainer. APPEND_TABLE fills CREATE_DATE only where it is.
func (Handler) NeededColumns(task *handlers.Task) []string {
	switch action := task.Params["SQL_ACTION"]; action {
	case OverwriteTable, SCD1Merge, SCD2Merge:
		return auditColumns(action)
	case DeleteRows:
		return deletionColumns(task.Params["HARD_DELETE"] == "true")
	}
	return nil
}

// MadeColumns implements handlers.Maintainer.
func (Handler) MadeColumns(env *handlers.Env, task *handlers.Task) (columns []string, ok bool) {
	switch task.Params["SQL_ACTION"] {
	case CreateTable:
		return auditColumns(CreateTable), true
	case SetupTable:
		target, ok := targetName(env.Dialect, task.Params["TARGET_OBJECT"])
		sp := &spec{Target: target}
		if !ok || len(sp.deduceSetup(env, task)) > 0 || !slices.Contains(writers, sp.SetupFor) {
			return nil, false
		}
		return auditColumns(sp.SetupFor), true
	}
	return nil, false
}

// Rehash implements handlers.Maintainer: one statement gives every row, closed versions included, the hash that the merge
// tasks expect, and changes nothing else. Then the Engine DB records it; after a crash in between, the next call finds the
// rows right and only records.
func (Handler) Rehash(ctx context.Context, env *handlers.Env, t handlers.Target, m *handlers.Maintenance) (*handlers.Maintained, error) {
	sp := &spec{Action: rehash}
	for _, task := range t.Tasks {
		if !slices.Contains(merges, task.Params["SQL_ACTION"]) {
			continue
		}
		sp.Evolve = sp.Evolve || task.Params["SCHEMA_EVOLUTION"] == "true"
		sp.Compare = nil // that the others say the same has been validated
		for _, c := range handlers.Columns(task.Params["MERGE_COMPARE_COLUMNS"]) {
			sp.Compare = append(sp.Compare, env.Dialect.FoldName(c))
		}
	}
	if len(sp.Compare) == 0 {
		return nil, refuse(fault.MetadataInvalid, "only targets of "+strings.Join(merges, " and ")+" have hashes", "no active task merges into %s", t.Name)
	}
	w, err := maintain(ctx, env, sp, t, m)
	if err != nil || w.in.table == nil {
		return &handlers.Maintained{Compare: sp.Compare}, sp.wrap(err)
	}
	defer func() { _ = w.session.Close() }()
	if err := w.planner.planRehash(); err != nil {
		return nil, sp.wrap(err)
	}
	done := &handlers.Maintained{Plan: w.planner.plan, Compare: sp.Compare,
		Record: w.in.record.HashVersion != HashVersionNow || w.in.record.CompareColumns != sp.compareList()}
	// Until the new hashes are recorded, no merge may take them for those that were recorded before.
	res, err := w.execute(ctx, func(ctx context.Context, so warehouses.Results) error {
		if so.Counts[warehouses.UpdateCount] == 0 {
			return nil
		}
		done.Record = true
		return m.ForgetHash(ctx, w.in.name())
	})
	if err != nil {
		return nil, sp.wrap(err)
	}
	done.Rows, done.Changed = res.Counts[warehouses.TargetCount], res.Counts[warehouses.UpdateCount]
	if m.DryRun || !done.Record {
		return done, nil
	}
	return done, sp.wrap(m.RecordHash(ctx, w.in.name(), HashVersionNow, sp.compareList()))
}

// planRehash counts before it updates, so that a target that is right stays untouched. A compare column that SCHEMA_EVOLUTION
// is still to add, as NULL, is hashed as such.
func (p *planner) planRehash() error {
	for _, c := range append([]string{hashKey}, p.spec.Compare...) {
		if p.in.table.Column(c) == nil && (c == hashKey || !p.spec.Evolve) {
			return p.refuse(fault.TargetShape, "make the table with a SETUP_TABLE task, correct MERGE_COMPARE_COLUMNS, or set SCHEMA_EVOLUTION to true", "the target %s has no column %s", p.in.target, c)
		}
	}
	if err := p.checkHashTypes(); err != nil {
		return err
	}
	alias := warehouses.SQL("t")
	if p.d.NoAliases {
		alias = p.d.Ident(p.in.target.Table)
	}
	f := frame{Target: p.target, Alias: alias, Plain: p.engineColumn(hashKey), Hash: p.hashOf(func(c string) warehouses.SQL { return alias + "." + p.d.Ident(c) })}
	p.stage = p.target
	p.fence()
	p.lockTarget()
	p.guardRange()
	p.add(warehouses.Step{Name: "rows in the target", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.TargetCount})
	p.add(warehouses.Step{Name: "rows with another hash", SQL: p.render("rehash_count", f), Counts: warehouses.UpdateCount})
	p.add(warehouses.Step{Name: "rehash", OnlyIf: []warehouses.Count{warehouses.UpdateCount}, Writes: true, SQL: p.render("rehash", f)})
	return nil
}

// Upgrade implements handlers.Maintainer: it adds the identity columns that the target lacks, NULL in the rows there are.
func (Handler) Upgrade(ctx context.Context, env *handlers.Env, t handlers.Target, m *handlers.Maintenance) (*handlers.Maintained, error) {
	sp := &spec{Action: upgradeTargets, Format: env.TableFormat}
	for _, task := range t.Tasks {
		if f := task.Params["TABLE_FORMAT"]; f != "" {
			sp.Format = f // that the others say the same has been validated
		}
	}
	w, err := maintain(ctx, env, sp, t, m)
	if err != nil || w.in.table == nil {
		return &handlers.Maintained{}, sp.wrap(err)
	}
	defer func() { _ = w.session.Close() }()
	done := &handlers.Maintained{Plan: w.planner.plan}
	if done.Columns, err = w.planner.planUpgrade(); err != nil {
		return nil, sp.wrap(err)
	}
	if len(done.Columns) > 0 {
		_, err = w.execute(ctx, func(context.Context, warehouses.Results) error { return nil })
	}
	return done, sp.wrap(err)
}

func (p *planner) planUpgrade() ([]string, error) {
	if p.spec.Format != "" && p.in.table.Format != p.spec.Format {
		return nil, p.refuse(fault.TargetFormat, "set TABLE_FORMAT of its tasks to "+p.in.table.Format, "the target %s has format %s, its tasks ask for %s", p.in.target, p.in.table.Format, p.spec.Format)
	}
	var added []string
	for _, c := range identityColumns {
		switch have := p.in.table.Column(c); {
		case have == nil:
			added = append(added, c)
		case have.Type.Kind != warehouses.Integer:
			return nil, p.refuse(fault.TargetShape, "rename the column, or give it the type "+string(p.d.BigInt), "%s of the target %s has type %s and cannot hold an id", c, p.in.target, have.Type.SQL)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	p.fence()
	p.lockTarget()
	for _, c := range added {
		p.add(warehouses.Step{Name: "add column " + c, Writes: true, Prepares: !p.d.Transactional,
			SQL: p.render("add_column", frame{Target: p.target, Definition: p.engineColumn(c) + " " + columnType(p.d, c)})})
	}
	return added, nil
}

// maintenance is work on one target under way.
type maintenance struct {
	*handlers.Maintenance
	env     *handlers.Env
	session warehouses.Session
	in      *inspection
	planner *planner
}

// maintain takes the target's lock, unless it is only to look, and inspects the target. The session is open when there is
// a table.
func maintain(ctx context.Context, env *handlers.Env, sp *spec, t handlers.Target, m *handlers.Maintenance) (*maintenance, error) {
	facts, err := env.Warehouse.Facts(ctx)
	if err != nil {
		return nil, err
	}
	sp.Target = t.Name
	if sp.Target.Database == "" {
		sp.Target.Database = facts.Database
	}
	if !m.DryRun {
		if err := m.Hold(ctx, locks.TargetKey(facts.Identity, sp.Target.Key()), locks.Holder{What: "target " + sp.Target.String()}); err != nil {
			return nil, err
		}
	}
	w := &maintenance{Maintenance: m, env: env}
	if w.session, err = env.Warehouse.Session(ctx); err != nil {
		return nil, err
	}
	r := &run{env: env, sp: sp, session: w.session}
	if !m.DryRun {
		err = r.awaitFence(ctx)
	}
	if err == nil {
		w.in, err = inspect(ctx, env, w.session, sp, "")
	}
	if err != nil || w.in.table == nil {
		_ = w.session.Close()
		return w, err
	}
	w.planner = newPlanner(env, sp, w.in, stamps{}, true)
	return w, nil
}

// execute runs the plan; of a dry run only what counts and guards.
func (w *maintenance) execute(ctx context.Context, beforeCommit func(context.Context, warehouses.Results) error) (warehouses.Results, error) {
	p := w.planner.plan
	if w.DryRun {
		p = &warehouses.Plan{}
		for _, step := range w.planner.plan.Steps {
			if step.Counts != "" || step.Guard != nil {
				step.Transaction = 0
				p.Steps = append(p.Steps, step)
			}
		}
	}
	return warehouses.Execute(ctx, w.session, p, warehouses.Hooks{
		Started: func(step warehouses.Step) { w.Log.Debug(step.Name, "sql", string(step.SQL)) },
		Done: func(step warehouses.Step, rows int64, took time.Duration) {
			w.Log.Debug(step.Name, "rows", rows, "seconds", took.Seconds())
		},
		BeforeCommit: func(ctx context.Context, so warehouses.Results) error {
			if err := w.Check(ctx); err != nil {
				return err
			}
			return beforeCommit(ctx, so)
		},
	})
}
