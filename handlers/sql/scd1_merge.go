package sql

import (
	"slices"

	"github.com/etl-craft/etl-craft/warehouses"
)

// scd1Merge updates changed rows in place and inserts new keys.
func (p *planner) scd1Merge() error {
	added, err := p.startMerge()
	if err != nil {
		return err
	}
	p.addColumns(added)
	f := frame{Target: p.target, Stage: p.stage, Change: p.change, Keys: p.keys(), Columns: p.keys(), Hash: p.stagedHash(), NewHash: "s.etl_hash", Version: p.version()}
	newHash := p.classifiedHash()
	if p.spec.Preserve {
		for _, c := range p.spec.Compare {
			if !slices.Contains(p.spec.Keys, c) {
				f.Columns = append(f.Columns, p.d.Ident(c))
			}
		}
		f.NewHash = p.hashOf(p.kept)
		newHash = f.NewHash
	}
	p.classify("one row for each new or changed key", "scd1_classify", f)
	p.add(warehouses.Step{Name: "changed rows", SQL: p.render("scd1_update_count", f), Counts: warehouses.UpdateCount})
	p.add(warehouses.Step{Name: "new rows", SQL: p.render("scd1_insert_count", f), Counts: warehouses.InsertCount})

	for _, c := range p.in.columns {
		if slices.Contains(p.spec.Keys, c.Name) {
			continue
		}
		value := "s." + p.d.Ident(c.Name)
		if p.spec.Preserve {
			value = p.kept(c.Name)
		}
		f.Sets = append(f.Sets, p.d.Ident(c.Name)+" = "+value)
	}
	f.Sets = append(f.Sets, p.engineColumn(hashKey)+" = "+newHash, p.engineColumn(deleteFlag)+" = 'N'")
	f.Sets = append(f.Sets, p.stamps.touched(p.d)...)
	if p.d.Transactional {
		p.add(warehouses.Step{Name: "update changed rows", OnlyIf: []warehouses.Count{warehouses.UpdateCount}, SQL: p.render("scd1_update", f), Writes: true})
		f.InsertColumns, f.InsertValues = p.newRow(slices.Concat(identityColumns, auditColumns(SCD1Merge)), p.classifiedHash(), p.nextRowID())
		p.add(warehouses.Step{Name: "insert new rows", OnlyIf: []warehouses.Count{warehouses.InsertCount}, SQL: p.render("scd1_insert", f), Writes: true})
	} else {
		p.publishMerge("update changed rows and insert new ones", "scd1_merge", f)
	}
	p.targetCount()
	p.scratchDropped()
	p.plan.Columns = p.keptShape(added)
	return nil
}

// kept is the value that PRESERVE_TARGET stores: the target's where the SELECT returns NULL.
func (p *planner) kept(column string) warehouses.SQL {
	c := p.d.Ident(column)
	return "coalesce(s." + c + ", t." + c + ")"
}
