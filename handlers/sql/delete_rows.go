package sql

import (
	"slices"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// deleteRows flags the target's rows whose key the SELECT returns, or removes them.
func (p *planner) deleteRows() error {
	maintained := slices.Concat(identityColumns, []string{updateDate, updatedBy, deleteFlag})
	if p.spec.Hard {
		maintained = nil
	}
	if err := p.checkEngineColumns(maintained); err != nil {
		return err
	}
	for _, k := range p.spec.Keys {
		if p.in.table.Column(k) == nil {
			return p.refuse(fault.ColumnMissing, "name columns of the target", "MERGE_KEY names %s, which the target %s does not have", k, p.in.target)
		}
	}
	p.fence()
	p.stageSelect()
	p.guardNullKeys()
	p.indexStage()
	p.lockTarget()
	f := frame{Target: p.target, Stage: p.stage, Keys: p.keys()}
	f.Where = p.render("key_staged", f)
	if p.spec.Hard {
		p.add(warehouses.Step{Name: "rows to delete", SQL: p.render("delete_count", f), Counts: warehouses.DeleteCount})
		if p.in.table.Column(rowID) != nil {
			p.add(warehouses.Step{Name: "first row to delete", Purpose: "its absence will prove the commit", OnlyIf: warehouses.DeleteCount, SQL: p.render("first_row", f), Witness: goneWitness})
		}
		p.add(warehouses.Step{Name: "delete rows", OnlyIf: warehouses.DeleteCount, SQL: p.render("delete_rows", f), Writes: true})
	} else {
		f.Where += "\n  AND t.delete_flag IS DISTINCT FROM 'Y'"
		if p.in.table.Column(activeFlag) != nil {
			f.Where += "\n  AND t.active_flag = 'Y'"
		}
		f.Sets = append([]warehouses.SQL{p.engineColumn(deleteFlag) + " = 'Y'"}, p.stamps.touched(p.d)...)
		p.add(warehouses.Step{Name: "rows to flag", SQL: p.render("delete_count", f), Counts: warehouses.UpdateCount})
		p.add(warehouses.Step{Name: "flag rows", OnlyIf: warehouses.UpdateCount, SQL: p.render("flag_rows", f), Writes: true})
	}
	p.targetCount()
	p.scratchDropped(p.stage)
	p.plan.Columns = p.keptShape(nil)
	return nil
}
