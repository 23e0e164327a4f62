package sql

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// reshapeTable makes the target in the transaction that fills it, or gives one that is there new columns and rows. Readers
// see the table as it was until the commit.
func (p *planner) reshapeTable() error {
	want := p.columnsAfter(CreateTable)
	if p.in.table == nil {
		p.makeTable()
		p.plan.Columns = want
		return nil
	}
	r := newReshape(p.d, p.in.table, want)
	if err := p.checkReshape(r); err != nil {
		return err
	}
	p.stageSelect()
	number := p.rememberRowID()
	for _, s := range r.steps(p.target, p.in.replacement) {
		p.add(s)
	}
	columns, values := p.newRow(identityColumns, "", number)
	f := frame{Target: p.target, Into: p.target, Stage: p.stage, InsertColumns: columns, InsertValues: values}
	p.add(warehouses.Step{Name: "delete the old rows", Purpose: "a DELETE, so that older snapshots keep reading them", SQL: p.render("delete_all", f), Writes: true})
	p.add(warehouses.Step{Name: "insert the new rows", Writes: true, SQL: p.render("insert_all", f)})
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.stage}), Counts: warehouses.InsertCount})
	p.targetCount()
	p.scratchDropped()
	p.plan.Columns = want
	return nil
}

func (p *planner) makeTable() {
	p.add(warehouses.Step{Name: "create the table", Purpose: "nobody sees it before the commit", Writes: true,
		SQL: p.render("create_table", frame{New: p.target, Definitions: p.definitions(CreateTable, ""), Options: p.tableOptions()})})
	columns, values := p.newRow(identityColumns, "", p.nextRowID())
	p.add(warehouses.Step{Name: "stage the SELECT", Writes: true, SQL: p.render("insert_source", frame{Into: p.target, Source: p.in.source, InsertColumns: columns, InsertValues: values})})
	p.add(warehouses.Step{Name: "rows of the SELECT", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.SourceCount})
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.InsertCount})
	p.targetCount()
}

// checkReshape refuses columns that cannot go, or cannot come.
func (p *planner) checkReshape(r reshape) error {
	var bound, lost, unadded []string
	for _, b := range p.in.replacement.Bound {
		switch {
		case !slices.Contains(r.drop, b.Column):
		case b.Keeps:
			bound = append(bound, b.What+" of "+b.Column)
		default:
			lost = append(lost, b.What+" of "+b.Column)
		}
	}
	for _, c := range r.add {
		if p.d.Adds != nil && !p.d.Adds(c.Type) {
			unadded = append(unadded, c.Name+" ("+string(c.Type.SQL)+")")
		}
	}
	switch {
	case len(bound) > 0:
		return p.refuse(fault.TargetDependents, "keep these columns, with their types and in front of those that change, or remove what depends on them",
			"%s would have to lose columns that it depends on: %s", p.in.target, strings.Join(bound, ", "))
	case len(unadded) > 0:
		return p.refuse(fault.TargetShape, "drop the table first, or leave these columns out",
			"%s adds no columns of nested types to a table, and %s would need: %s", p.d.Product, p.in.target, strings.Join(unadded, ", "))
	case len(lost) > 0:
		p.note("replacing the columns loses: %s", strings.Join(lost, ", "))
	}
	return nil
}

// reshape gives a table the columns of another. Those in front that are already right stay; all behind the first
// difference go and come anew, since a column can be added at the end only.
type reshape struct {
	d    *warehouses.Dialect
	kept []warehouses.TableColumn
	drop []string
	add  []warehouses.Column
}

func newReshape(d *warehouses.Dialect, table *warehouses.Table, want []warehouses.Column) reshape {
	same := 0
	for same < len(want) && same < len(table.Columns) && table.Columns[same].Name == want[same].Name && table.Columns[same].Type.SQL == want[same].Type.SQL {
		same++
	}
	r := reshape{d: d, kept: table.Columns[:same], add: want[same:]}
	for _, c := range table.Columns[same:] {
		r.drop = append(r.drop, c.Name)
	}
	return r
}

// placeholder is a column that comes before others go, and goes last. A table may never be without columns; and where
// dropping one led back to a schema that the table has had, DuckDB 1.5 would add no column to that.
const placeholder = "etl_placeholder"

func (r reshape) steps(target warehouses.SQL, old *warehouses.Replacement) []warehouses.Step {
	var steps []warehouses.Step
	alter := func(name, statement string, f frame) {
		f.Target = target
		steps = append(steps, warehouses.Step{Name: name, Writes: true, SQL: r.d.Render(statement, f)})
	}
	for _, c := range r.kept {
		if old != nil && slices.ContainsFunc(old.Bound, func(b warehouses.Bound) bool { return b.Column == c.Name && b.What == warehouses.NotNull }) {
			alter("let "+c.Name+" be NULL", "drop_not_null", frame{Plain: r.d.Ident(c.Name)})
		}
	}
	if len(r.drop) > 0 {
		alter("add a placeholder", "add_column", frame{Definition: r.d.Ident(placeholder) + " " + r.d.BigInt})
		steps[len(steps)-1].Purpose = "no schema of the table is empty, or one that it had before"
	}
	for _, c := range r.drop {
		alter("drop column "+c, "drop_column", frame{Plain: r.d.Ident(c)})
	}
	for _, c := range r.add {
		alter("add column "+c.Name, "add_column", frame{Definition: r.d.Ident(c.Name) + " " + c.Type.SQL})
	}
	if len(r.drop) > 0 {
		alter("drop the placeholder", "drop_column", frame{Plain: r.d.Ident(placeholder)})
	}
	return steps
}
