package sql

import (
	"fmt"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// HashVersionNow is the version of the change hash that this program writes.
const HashVersionNow = 2

// hashOf renders the change hash over compare columns; expr gives the expression that holds a column's value.
func (p *planner) hashOf(expr func(column string) warehouses.SQL) warehouses.SQL {
	pieces := make([]warehouses.SQL, len(p.spec.Compare))
	for i, c := range p.spec.Compare {
		if p.toCome(c) {
			pieces[i] = "'N'" // as of any NULL
			continue
		}
		pieces[i], _ = p.d.HashPiece(expr(c), p.stored(c).Type)
	}
	return p.d.HashDigest(pieces)
}

// toCome reports whether a rehash meets a compare column that SCHEMA_EVOLUTION is still to add, as NULL.
func (p *planner) toCome(c string) bool {
	return p.spec.Action == rehash && p.in.table.Column(c) == nil
}

// checkHashTypes refuses compare columns whose stored type has no canonical text.
func (p *planner) checkHashTypes() error {
	for _, c := range p.spec.Compare {
		if p.toCome(c) {
			continue
		}
		t := p.stored(c).Type
		if _, ok := p.d.HashPiece("x", t); ok {
			continue
		}
		as := "VARCHAR"
		if p.d.TextType != "" {
			as = string(p.d.TextType)
		}
		if t.Kind == warehouses.Float || t.Kind == warehouses.Decimal {
			as = "DECIMAL(p,s)"
		}
		hint := fmt.Sprintf("write CAST(%s AS %s) AS %[1]s in the SELECT, and give the target's column that type", c, as)
		return p.refuse(fault.HashType, hint, "compare column %s has type %s, which cannot be hashed", c, t.SQL)
	}
	return nil
}

// guardRange fails on dates that read differently from one warehouse to the next.
func (p *planner) guardRange() {
	var conditions []warehouses.SQL
	for _, c := range p.spec.Compare {
		if p.toCome(c) {
			continue
		}
		if cond := p.d.OutOfRange(p.d.Ident(c), p.stored(c).Type); cond != "" {
			conditions = append(conditions, cond)
		}
	}
	if len(conditions) == 0 {
		return
	}
	p.add(warehouses.Step{
		Name: "dates out of range",
		SQL:  p.render("out_of_range", frame{Stage: p.stage, Conditions: []warehouses.SQL{warehouses.Join(conditions, "\n  OR ")}}),
		Guard: &warehouses.Guard{Code: fault.HashRange, Message: "%d row(s) have dates outside the years 1 to 9999 in MERGE_COMPARE_COLUMNS",
			Hint: "correct them in the SELECT"},
	})
}
