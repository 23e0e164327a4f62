package sql

import (
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// appendTable inserts the SELECT's rows, after it has removed those that an earlier attempt of this task run left.
func (p *planner) appendTable() error {
	if err := p.checkEngineColumns(identityColumns); err != nil {
		return err
	}
	if err := p.checkComputed(); err != nil {
		return err
	}
	if added := p.newColumns(); len(added) > 0 {
		return p.refuse(fault.NewColumns, "leave them out of the SELECT, or add them to the target", "the SELECT returns columns that the target %s lacks: %s", p.in.target, strings.Join(names(added), ", "))
	}
	stamped := identityColumns
	for _, c := range []string{createDate} {
		if p.in.table.Column(c) != nil {
			stamped = append(stamped[:len(stamped):len(stamped)], c)
		}
	}
	p.fence()
	p.stageSelect()
	p.lockTarget()
	number := p.nextRowID()
	if p.d.Transactional && !p.first {
		number = p.rememberRowID()
	}
	columns, values := p.newRow(stamped, "", number)
	f := frame{Target: p.target, Into: p.target, Stage: p.stage, TaskRunID: p.stamps.taskRunID, InsertColumns: columns, InsertValues: values}
	switch {
	case p.first:
		p.add(warehouses.Step{Name: "insert the batch", Writes: true, SQL: p.render("insert_all", f)})
	case p.d.Transactional:
		p.add(warehouses.Step{Name: "remove the earlier attempt's batch", SQL: p.render("delete_batch", f), Writes: true})
		p.add(warehouses.Step{Name: "insert the batch", Writes: true, SQL: p.render("insert_all", f)})
	default:
		f.Columns = p.selected()
		if p.computesRowID() {
			f.Number = p.nextRowID()
		}
		_, f.InsertValues = p.newRow(stamped, "", numbered)
		p.publish(warehouses.Step{Name: "put the batch in place of the earlier attempt's", SQL: p.render("append_merge", f)})
	}
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.stage}), Counts: warehouses.InsertCount})
	p.targetCount()
	p.scratchDropped()
	p.plan.Columns = p.keptShape(nil)
	return nil
}
