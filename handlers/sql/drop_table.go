package sql

import (
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// dropTable drops the target; one that is gone already is no error.
func (p *planner) dropTable() error {
	t := p.in.table
	if t == nil {
		p.note("the target does not exist")
		return nil
	}
	if len(p.in.replacement.Dependents) > 0 {
		return p.refuse(fault.TargetDependents, "drop them first", "%s cannot be dropped, because other objects depend on it: %s", p.in.target, strings.Join(p.in.replacement.Dependents, ", "))
	}
	p.fence()
	if p.d.Fences {
		p.add(warehouses.Step{Name: "wait for readers at most a while", SQL: p.render("lock_timeout", frame{})})
	}
	p.add(warehouses.Step{Name: "drop the table", SQL: p.render("drop_table", frame{Table: p.target}), Writes: true})
	if c := t.Column(rowID); p.d.Sequences && c != nil && c.Generator == p.sequence() {
		p.add(warehouses.Step{Name: "drop the ROW_ID sequence", SQL: p.render("drop_sequence", frame{Schema: p.sequence()}), Writes: true})
	}
	return nil
}
