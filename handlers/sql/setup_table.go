package sql

import "github.com/etl-craft/etl-craft/warehouses"

// setupTable creates an empty target in the shape of the SELECT, and leaves an existing one as it is.
func (p *planner) setupTable() error {
	if p.in.table == nil {
		p.fence()
		if err := p.ensureSchema(); err != nil {
			return err
		}
		p.createSequence("")
		p.add(warehouses.Step{Name: "create the table", Purpose: "empty, with the columns of " + p.spec.SetupFor, Writes: true,
			SQL: p.render("create_table", frame{New: p.target, Definitions: p.definitions(p.spec.SetupFor, ""), Options: p.tableOptions()})})
		p.plan.Columns = p.columnsAfter(p.spec.SetupFor)
	} else {
		p.note("the target exists and is left as it is")
		p.plan.Columns = p.keptShape(nil)
	}
	p.targetCount()
	return nil
}
