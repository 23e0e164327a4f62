package sql

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// overwriteTable replaces the target's rows and keeps the table.
func (p *planner) overwriteTable() error {
	added, err := p.checkShape(OverwriteTable)
	if err != nil {
		return err
	}
	if p.d.Recreates {
		if err := p.checkKept(); err != nil {
			return err
		}
	}
	p.fence()
	p.stageSelect()
	p.lockTarget()
	number := p.nextRowID()
	if p.d.Transactional {
		number = p.rememberRowID()
	}
	if !p.d.Recreates {
		p.addColumns(added)
	}
	columns, values := p.newRow(append(identityColumns[:len(identityColumns):len(identityColumns)], updateDate), "", number)
	f := frame{Target: p.target, Into: p.target, Stage: p.stage, InsertColumns: columns, InsertValues: values}
	if p.d.Transactional {
		p.add(warehouses.Step{Name: "delete the old rows", Purpose: "a DELETE, so that older snapshots keep reading them", SQL: p.render("delete_all", f), Writes: true})
		p.add(warehouses.Step{Name: "insert the new rows", Writes: true, SQL: p.render("insert_all", f)})
	} else {
		if p.d.Recreates {
			f.Options, f.Selected = p.in.replacement.Options, p.wholeRow(added, columns, values)
		}
		p.publish(warehouses.Step{Name: "replace the rows", Purpose: "readers see the old rows or the new ones", SQL: p.render("overwrite", f)})
	}
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.stage}), Counts: warehouses.InsertCount})
	p.targetCount()
	p.scratchDropped()
	p.plan.Columns = p.keptShape(added)
	return nil
}

// wholeRow gives every column of the target, and those added to it, its new value in its own type.
func (p *planner) wholeRow(added []warehouses.Column, columns, values []warehouses.SQL) []warehouses.SQL {
	var all []warehouses.SQL
	for _, c := range p.keptShape(added) {
		name, value := p.d.Ident(c.Name), warehouses.SQL("NULL")
		if i := slices.Index(columns, name); i >= 0 {
			value = values[i]
		}
		all = append(all, "CAST("+value+" AS "+c.Type.SQL+") AS "+name)
	}
	return all
}

// checkKept refuses to make a table anew that has what the statement for it cannot say.
func (p *planner) checkKept() error {
	if kept := p.in.replacement.Kept; len(kept) > 0 {
		others := "APPEND_TABLE or a merge"
		if !p.d.Recreates {
			others = "OVERWRITE_TABLE"
		}
		return p.refuse(fault.TargetDependents, "remove it, or use an action that keeps the table, such as "+others,
			"%s cannot be made anew in one statement, because that would lose: %s", p.in.target, strings.Join(kept, ", "))
	}
	return nil
}
