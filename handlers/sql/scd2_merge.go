package sql

import (
	"slices"

	"github.com/etl-craft/etl-craft/warehouses"
)

// scd2Merge closes the active versions of changed keys and opens new ones.
func (p *planner) scd2Merge() error {
	added, err := p.startMerge()
	if err != nil {
		return err
	}
	p.addColumns(added)
	f := frame{Target: p.target, Stage: p.stage, Change: p.change, Keys: p.keys(), Hash: p.stagedHash(), Version: p.version()}
	p.classify("one row for each new or changed key", "scd2_classify", f)
	p.add(warehouses.Step{Name: "changed rows", SQL: p.render("scd2_close_count", f), Counts: warehouses.UpdateCount})
	p.add(warehouses.Step{Name: "new versions", SQL: p.render("scd2_open_count", f), Counts: warehouses.InsertCount})
	f.Sets = append([]warehouses.SQL{p.engineColumn(activeFlag) + " = 'N'"}, p.stamps.touched(p.d)...)
	if p.d.Transactional {
		p.add(warehouses.Step{Name: "close changed versions", OnlyIf: []warehouses.Count{warehouses.UpdateCount}, SQL: p.render("scd2_close", f), Writes: true})
		f.InsertColumns, f.InsertValues = p.newRow(slices.Concat(identityColumns, auditColumns(SCD2Merge)), p.classifiedHash(), p.nextRowID())
		p.add(warehouses.Step{Name: "open new versions", OnlyIf: []warehouses.Count{warehouses.InsertCount}, SQL: p.render("scd2_open", f), Writes: true})
	} else {
		p.publishMerge("close changed versions and open new ones", "scd2_merge", f)
	}
	p.targetCount()
	p.scratchDropped()
	p.plan.Columns = p.keptShape(added)
	return nil
}
