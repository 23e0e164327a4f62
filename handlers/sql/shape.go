package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// checkShape compares target and SELECT before an overwrite or a merge writes a row. It returns the columns to add.
func (p *planner) checkShape(action string) ([]warehouses.Column, error) {
	if err := p.checkEngineColumns(slices.Concat(identityColumns, auditColumns(action), []string{rowID})); err != nil {
		return nil, err
	}
	if err := p.checkComputed(); err != nil {
		return nil, err
	}
	var gone []string
	for _, c := range p.in.table.Columns {
		if !isEngineColumn(c.Name) && !c.Computed && !p.returns(c.Name) {
			gone = append(gone, c.Name)
		}
	}
	if len(gone) > 0 {
		return nil, p.refuse(fault.TargetShape, "columns are never dropped: return them from the SELECT, as NULL if need be", "the target %s has columns that the SELECT does not return: %s", p.in.target, strings.Join(gone, ", "))
	}
	added := p.newColumns()
	if len(added) > 0 && !p.spec.Evolve {
		return nil, p.refuse(fault.NewColumns, "set SCHEMA_EVOLUTION to true to add them, or leave them out of the SELECT", "the SELECT returns columns that the target %s lacks: %s", p.in.target, strings.Join(names(added), ", "))
	}
	if !p.spec.Evolve {
		return nil, nil
	}
	for _, c := range added {
		if p.d.Adds != nil && !p.d.Adds(c.Type) {
			return nil, p.refuse(fault.NewColumns, "leave it out of the SELECT, or make the table anew", "%s adds no columns of nested types to a table: %s is %s", p.d.Product, c.Name, c.Type.SQL)
		}
	}
	for _, c := range p.in.columns {
		stored := p.in.table.Column(c.Name)
		if stored != nil && stored.Type.SQL != c.Type.SQL && !p.sameText(stored.Type, c.Type) {
			return nil, p.refuse(fault.TypeChanged, "cast it to "+string(stored.Type.SQL)+" in the SELECT, or migrate the column yourself",
				"with SCHEMA_EVOLUTION the types must agree: column %s of %s is %s, the SELECT returns %s", c.Name, p.in.target, stored.Type.SQL, c.Type.SQL)
		}
	}
	return added, nil
}

// sameText reports whether two types are texts that differ by a length of which a SELECT could not tell.
func (p *planner) sameText(stored, selected warehouses.Type) bool {
	texts := []warehouses.Kind{warehouses.Text, warehouses.Char}
	return p.d.LosesLength && selected.Kind == warehouses.Text && slices.Contains(texts, stored.Kind) && stored.Collation == selected.Collation
}

// checkKeys refuses keys of which the target could take two for one. Their rows would overwrite each other, or a delete would
// hit a row that the SELECT does not name.
func (p *planner) checkKeys() error {
	for _, k := range p.spec.Keys {
		stored := p.in.table.Column(k)
		if stored == nil {
			return p.refuse(fault.ColumnMissing, "name columns of the target", "MERGE_KEY names %s, which the target %s does not have", k, p.in.target)
		}
		if stored.Type.Collation != "" {
			return p.refuse(fault.KeyType, "use a column of another collation as the key", "key column %s of %s takes different texts for equal (collation %s)", k, p.in.target, stored.Type.Collation)
		}
		for _, c := range p.in.columns {
			if strings.EqualFold(c.Name, k) && !c.Type.KeptApart(stored.Type) {
				return p.refuse(fault.KeyType, fmt.Sprintf("write CAST(%s AS %s) AS %[1]s in the SELECT, when that is what it means", k, stored.Type.SQL),
					"key column %s is %s in the SELECT and %s in the target %s, where different keys could become the same", k, c.Type.SQL, stored.Type.SQL, p.in.target)
			}
		}
	}
	return nil
}

// checkEngineColumns refuses a target without a column that the action maintains.
func (p *planner) checkEngineColumns(want []string) error {
	var missing, identities []string
	for _, c := range want {
		if p.in.table.Column(c) != nil {
			continue
		}
		missing = append(missing, c)
		if slices.Contains(identityColumns, c) {
			identities = append(identities, c)
		}
	}
	switch {
	case len(missing) == 0:
		return p.checkGenerator()
	case len(missing) == len(identities):
		return p.refuse(fault.TargetShape, "etl-craft upgrade-targets --target "+p.in.target.Schema+"."+p.in.target.Table+" adds them", "the target %s lacks %s", p.in.target, strings.Join(missing, ", "))
	}
	return p.refuse(fault.TargetShape, "make it with a SETUP_TABLE task, or add the columns", "the target %s lacks columns that %s maintains: %s", p.in.target, p.spec.Action, strings.Join(missing, ", "))
}

// checkComputed refuses values for columns that the target computes.
func (p *planner) checkComputed() error {
	for _, c := range p.in.table.Columns {
		if c.Computed && p.returns(c.Name) {
			return p.refuse(fault.TargetShape, "leave it out of the SELECT", "the target %s computes %s itself", p.in.target, c.Name)
		}
	}
	return nil
}

// checkGenerator refuses a ROW_ID that nothing would fill.
func (p *planner) checkGenerator() error {
	c := p.in.table.Column(rowID)
	if c == nil || c.Generator != "" || p.d.ComputesRowID {
		return nil
	}
	plain := string(p.sequence())
	if !p.d.Sequences {
		plain = p.in.target.Schema + ".etl_seq_" + p.in.target.Table + "_row_id"
	}
	statement := p.d.Render("add_generator", frame{Target: p.target, Plain: p.d.Text(plain), Schema: p.sequence(), Key: warehouses.Int(p.in.nextRowID)})
	return p.refuse(fault.NoGenerator, "run "+string(statement), "ROW_ID of %s has no generator", p.in.target)
}

func (p *planner) newColumns() []warehouses.Column {
	var added []warehouses.Column
	for _, c := range p.in.columns {
		if p.in.table.Column(c.Name) == nil {
			added = append(added, c)
		}
	}
	return added
}

func (p *planner) addColumns(added []warehouses.Column) {
	for _, c := range added {
		p.add(warehouses.Step{Name: "add column " + c.Name, Writes: true, Prepares: !p.d.Transactional,
			SQL: p.render("add_column", frame{Target: p.target, Definition: p.d.Ident(c.Name) + " " + c.Type.SQL})})
	}
}

func (p *planner) returns(column string) bool {
	return slices.ContainsFunc(p.in.columns, func(c warehouses.Column) bool { return strings.EqualFold(c.Name, column) })
}

// keptShape is the target's shape with the added columns.
func (p *planner) keptShape(added []warehouses.Column) []warehouses.Column {
	var out []warehouses.Column
	for _, c := range p.in.table.Columns {
		out = append(out, c.Column)
	}
	return append(out, added...)
}

func names(columns []warehouses.Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}
