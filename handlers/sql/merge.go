package sql

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// startMerge checks what both merges need and stages one row per key. It returns the columns to add.
func (p *planner) startMerge() ([]warehouses.Column, error) {
	added, err := p.checkShape(p.spec.Action)
	if err != nil {
		return nil, err
	}
	if err := p.checkKeys(); err != nil {
		return nil, err
	}
	if err := p.checkHashTypes(); err != nil {
		return nil, err
	}
	if err := p.checkHashRecord(); err != nil {
		return nil, err
	}
	p.fence()
	p.stageSelect()
	p.guardNullKeys()
	p.oneRowPerKey()
	p.guardRange()
	p.indexStage()
	p.lockTarget()
	return added, nil
}

// checkHashRecord refuses a target whose rows were hashed in another way. An empty target has no such rows.
func (p *planner) checkHashRecord() error {
	if p.in.empty {
		return nil
	}
	rehash := "etl-craft rehash --target " + p.in.target.Schema + "." + p.in.target.Table
	if p.in.record.HashVersion != HashVersionNow {
		return p.refuse(fault.HashVersion, rehash, "the hashes in %s are of an unknown or older version", p.in.target)
	}
	if now := p.spec.compareList(); p.in.record.CompareColumns != now {
		return p.refuse(fault.HashColumns, rehash, "the hashes in %s were made of %s, MERGE_COMPARE_COLUMNS is %s", p.in.target, p.in.record.CompareColumns, now)
	}
	return nil
}

// compareList is how the Engine DB records MERGE_COMPARE_COLUMNS.
func (sp *spec) compareList() string { return strings.ToLower(strings.Join(sp.Compare, "|")) }

// stagedHash is the change hash over the stage's columns.
func (p *planner) stagedHash() warehouses.SQL { return p.hashOf(p.d.Ident) }

// classifiedHash is the hash that the classification found, as the statements that write call it.
func (p *planner) classifiedHash() warehouses.SQL {
	if p.d.Transactional {
		return "c.etl_hash"
	}
	return "s.etl_hash"
}

// numbered is the ROW_ID that a MERGE has computed for the rows it may insert.
const numbered = warehouses.SQL("s.etl_row_id")

// publishMerge changes and inserts in one statement, which does nothing when the target is no longer the one that was
// classified.
func (p *planner) publishMerge(name, statement string, f frame) {
	f.Columns = p.selected()
	if p.computesRowID() {
		f.Number = p.nextRowID()
	}
	f.InsertColumns, f.InsertValues = p.newRow(slices.Concat(identityColumns, auditColumns(p.spec.Action)), p.classifiedHash(), numbered)
	both := []warehouses.Count{warehouses.UpdateCount, warehouses.InsertCount}
	p.publish(warehouses.Step{Name: name, Purpose: "nothing when the target is no longer as it was classified", OnlyIf: both, Changes: both, SQL: p.render(statement, f)})
}
