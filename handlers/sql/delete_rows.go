package sql

import (
	"slices"

	"github.com/etl-craft/etl-craft/warehouses"
)

// deleteRows flags the target's rows whose key the SELECT returns, or removes them.
func (p *planner) deleteRows() error {
	var maintained []string
	if !p.spec.Hard {
		maintained = slices.Concat(identityColumns, deletionColumns(false))
	}
	if err := p.checkEngineColumns(maintained); err != nil {
		return err
	}
	if err := p.checkKeys(); err != nil {
		return err
	}
	p.fence()
	p.stageSelect()
	p.guardNullKeys()
	p.indexStage()
	p.lockTarget()
	f := frame{Target: p.target, Stage: p.stage, Change: p.change, Keys: p.keys(), Version: p.version()}
	if !p.d.Transactional {
		p.classify("each key once", "delete_classify", f)
	}
	f.Where = p.render("key_staged", f)
	if p.spec.Hard {
		p.add(warehouses.Step{Name: "rows to delete", SQL: p.render("delete_count", f), Counts: warehouses.DeleteCount})
		if p.in.table.Column(rowID) != nil {
			p.add(warehouses.Step{Name: "first row to delete", Purpose: "its absence will prove the commit", OnlyIf: []warehouses.Count{warehouses.DeleteCount}, SQL: p.render("first_row", f), Witness: goneWitness})
		}
		p.deletion(warehouses.Step{Name: "delete rows", OnlyIf: []warehouses.Count{warehouses.DeleteCount}}, "delete_rows", f)
	} else {
		f.And = "\n  AND t.delete_flag IS DISTINCT FROM 'Y'"
		if p.in.table.Column(activeFlag) != nil {
			f.And += "\n  AND t.active_flag = 'Y'"
		}
		f.Where += f.And
		f.Sets = append([]warehouses.SQL{p.engineColumn(deleteFlag) + " = 'Y'"}, p.stamps.touched(p.d)...)
		p.add(warehouses.Step{Name: "rows to flag", SQL: p.render("delete_count", f), Counts: warehouses.UpdateCount})
		p.deletion(warehouses.Step{Name: "flag rows", OnlyIf: []warehouses.Count{warehouses.UpdateCount}}, "flag_rows", f)
	}
	p.targetCount()
	p.scratchDropped()
	p.plan.Columns = p.keptShape(nil)
	return nil
}

// deletion adds the statement that flags or removes the counted rows.
func (p *planner) deletion(s warehouses.Step, statement string, f frame) {
	if p.d.Transactional {
		s.SQL, s.Writes = p.render(statement, f), true
		p.add(s)
		return
	}
	s.Purpose, s.Changes = "nothing when the target is no longer as it was classified", s.OnlyIf
	s.SQL = p.render("delete_merge", f)
	p.publish(s)
}
