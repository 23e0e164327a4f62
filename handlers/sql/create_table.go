package sql

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// createTable fills a new table and gives it the target's name last, so that any failure keeps the old table.
func (p *planner) createTable() error {
	old := warehouses.SQL("")
	if t := p.in.table; t != nil {
		r := p.in.replacement
		if r.NotOwned {
			return p.refuse(fault.TargetNotOwned, "let the owner "+r.Owner+" run the task, or make the engine's user a member of it", "%s belongs to %s, and %s may not replace it", p.in.target, r.Owner, p.in.facts.User)
		}
		if len(r.Dependents) > 0 {
			return p.refuse(fault.TargetDependents, "drop them first, or use OVERWRITE_TABLE, which keeps the table", "%s cannot be replaced, because other objects depend on it: %s", p.in.target, strings.Join(r.Dependents, ", "))
		}
		if c := t.Column(rowID); c != nil {
			old = c.Generator
		}
		if len(r.Lost) > 0 {
			p.note("replacing the table loses: %s", strings.Join(r.Lost, ", "))
		}
	}
	p.fence()
	if err := p.ensureSchema(); err != nil {
		return err
	}
	if !p.d.Transactional {
		return p.replaceTable()
	}
	if p.d.Reshapes {
		return p.reshapeTable()
	}
	p.createSequence(old)
	p.add(warehouses.Step{Name: "create the new table", Purpose: "nobody sees it until it gets the target's name",
		SQL: p.render("create_table", frame{New: p.fresh, Definitions: p.definitions(CreateTable, old), Options: p.tableOptions()})})
	if p.d.Continues && old != "" {
		p.add(warehouses.Step{Name: "continue ROW_ID", Purpose: "ids of replaced rows are never used again",
			SQL: p.render("continue_generator", frame{New: p.d.Text(string(p.fresh)), Old: old})})
	}
	columns, values := p.newRow(identityColumns, "", p.nextRowID())
	p.add(warehouses.Step{Name: "stage the SELECT", SQL: p.render("insert_source", frame{Into: p.fresh, Source: p.in.source, InsertColumns: columns, InsertValues: values})})
	p.add(warehouses.Step{Name: "rows of the SELECT", SQL: p.render("count", frame{Table: p.fresh}), Counts: warehouses.SourceCount})
	if p.in.table != nil {
		if p.d.Fences {
			p.add(warehouses.Step{Name: "wait for readers at most a while", SQL: p.render("lock_timeout", frame{})})
		}
		p.add(warehouses.Step{Name: "drop the old table", SQL: p.render("drop_table", frame{Table: p.target}), Writes: true})
	}
	p.add(warehouses.Step{Name: "publish under the target's name", Writes: true,
		SQL: p.render("rename_table", frame{New: p.fresh, Plain: p.d.Ident(p.in.target.Table)})})
	if p.in.table != nil {
		for _, s := range p.in.replacement.Carry {
			p.add(warehouses.Step{Name: "carry over " + carried(s), SQL: s, Writes: true})
		}
	}
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.InsertCount})
	p.targetCount()
	p.plan.Columns = p.columnsAfter(CreateTable)
	return nil
}

// replaceTable makes the table and its rows in one statement, which leaves the old table when it fails.
func (p *planner) replaceTable() error {
	f := frame{Target: p.target, Source: p.in.source, Options: p.tableOptions()}
	if p.in.table != nil {
		if p.spec.Storage.Location != "" {
			return p.refuse(fault.TargetFormat, "leave EXTERNAL_LOCATION out, or use OVERWRITE_TABLE, which keeps the table", "%s exists, and another table cannot take its place at EXTERNAL_LOCATION", p.in.target)
		}
		if err := p.checkKept(); err != nil {
			return err
		}
		f.Old, f.Options = p.target, p.in.replacement.Options
	}
	for _, c := range p.in.columns {
		name := p.d.Ident(c.Name)
		value := "s." + name
		if p.in.converted {
			value = cast(p.d, value, c.Type)
		}
		f.Selected = append(f.Selected, value+" AS "+name)
	}
	for _, c := range slices.Concat(identityColumns, auditColumns(CreateTable)) {
		f.Selected = append(f.Selected, "CAST("+p.stamps.inserted(c, "")+" AS "+columnType(p.d, c)+") AS "+p.engineColumn(c))
	}
	f.Selected = append(f.Selected, "CAST("+p.nextRowID()+" AS "+p.d.BigInt+") AS "+p.engineColumn(rowID))
	p.publish(warehouses.Step{Name: "make the table from the SELECT", Purpose: "readers see the old table or the new one", SQL: p.render("replace_table", f)})
	p.add(warehouses.Step{Name: "rows of the SELECT", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.SourceCount})
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.InsertCount})
	p.targetCount()
	p.plan.Columns = p.columnsAfter(CreateTable)
	return nil
}

// carried names what a statement carries over, from its first word.
func carried(s warehouses.SQL) string {
	switch first, _, _ := strings.Cut(string(s), " "); first {
	case "COMMENT":
		return "the comment"
	case "GRANT", "REVOKE":
		return "a grant"
	default:
		return "the owner"
	}
}

// sequence is the sequence behind ROW_ID on warehouses that use one.
func sequence(d *warehouses.Dialect, target warehouses.QualifiedName) warehouses.SQL {
	target.Table = "etl_seq_" + target.Table + "_row_id"
	return d.Table(target)
}

func (p *planner) sequence() warehouses.SQL { return sequence(p.d, p.in.target) }

func (p *planner) createSequence(old warehouses.SQL) {
	if p.d.Sequences && old == "" {
		p.add(warehouses.Step{Name: "create the ROW_ID sequence", SQL: p.render("create_sequence", frame{Schema: p.sequence()})})
	}
}
