package sql

import "github.com/etl-craft/etl-craft/warehouses"

// overwriteTable replaces the target's rows and keeps the table.
func (p *planner) overwriteTable() error {
	added, err := p.checkShape(OverwriteTable)
	if err != nil {
		return err
	}
	p.fence()
	p.stageSelect()
	p.lockTarget()
	p.addColumns(added)
	p.add(warehouses.Step{Name: "delete the old rows", Purpose: "a DELETE, so that older snapshots keep reading them", SQL: p.render("delete_all", frame{Target: p.target}), Writes: true})
	columns, values := p.newRow(append(identityColumns[:len(identityColumns):len(identityColumns)], updateDate), "")
	p.add(warehouses.Step{Name: "insert the new rows", Writes: true,
		SQL: p.render("insert_all", frame{Into: p.target, Stage: p.stage, InsertColumns: columns, InsertValues: values})})
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.stage}), Counts: warehouses.InsertCount})
	p.targetCount()
	p.scratchDropped(p.stage)
	p.plan.Columns = p.keptShape(added)
	return nil
}
