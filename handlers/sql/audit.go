package sql

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/warehouses"
)

// Columns the engine adds, in lower case; Dialect.FoldName gives them the warehouse's case.
const (
	pipelineID    = "pipeline_id"
	pipelineRunID = "pipeline_run_id"
	taskRunID     = "task_run_id"
	hashKey       = "hash_key"
	createDate    = "create_date"
	createdBy     = "created_by"
	updateDate    = "update_date"
	updatedBy     = "updated_by"
	deleteFlag    = "delete_flag"
	activeFlag    = "active_flag"
	rowID         = "row_id"
)

var identityColumns = []string{pipelineID, pipelineRunID, taskRunID}

// scratchColumns are names that scratch tables use beside the SELECT's.
var scratchColumns = []string{"etl_hash", "etl_matched", "etl_equal", "etl_row", "etl_rank", "etl_pointer", "etl_version", "etl_op", "etl_row_id", "etl_batch"}

// auditColumns are the columns an action adds between the identities and ROW_ID.
func auditColumns(action string) []string {
	switch action {
	case OverwriteTable:
		return []string{updateDate}
	case AppendTable:
		return []string{createDate}
	case SCD1Merge:
		return []string{hashKey, createDate, createdBy, updateDate, updatedBy, deleteFlag}
	case SCD2Merge:
		return []string{hashKey, createDate, createdBy, updateDate, updatedBy, deleteFlag, activeFlag}
	}
	return nil
}

// deletionColumns are the audit columns that DELETE_ROWS writes, none where it removes the rows.
func deletionColumns(hard bool) []string {
	if hard {
		return nil
	}
	return []string{updateDate, updatedBy, deleteFlag}
}

// engineColumns are all columns an action's table has after the SELECT's own.
func engineColumns(action string) []string {
	return slices.Concat(identityColumns, auditColumns(action), []string{rowID})
}

// isEngineColumn reports whether the engine writes a column of this name in some table or scratch table.
func isEngineColumn(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(engineColumns(SCD2Merge), name) || slices.Contains(scratchColumns, name)
}

func columnType(d *warehouses.Dialect, name string) warehouses.SQL {
	switch name {
	case hashKey:
		return d.HashKeyType
	case createDate, updateDate:
		return d.InstantType
	case createdBy, updatedBy:
		return d.UserType
	case deleteFlag, activeFlag:
		return d.FlagType
	}
	return d.BigInt
}

// stamps are the values this attempt writes into the columns the engine adds.
type stamps struct {
	pipelineID, pipelineRunID, taskRunID warehouses.SQL
	instant, user                        warehouses.SQL
	scratch                              string // end of scratch tables' names: "412_9f3a"
}

// inserted are the values of a new row; hash is the expression of its hash.
func (st stamps) inserted(column string, hash warehouses.SQL) warehouses.SQL {
	switch column {
	case pipelineID:
		return st.pipelineID
	case pipelineRunID:
		return st.pipelineRunID
	case taskRunID:
		return st.taskRunID
	case hashKey:
		return hash
	case createDate, updateDate:
		return st.instant
	case createdBy, updatedBy:
		return st.user
	case deleteFlag:
		return "'N'"
	case activeFlag:
		return "'Y'"
	}
	panic("no value for column " + column)
}

// touched are assignments for a row that the attempt changes.
func (st stamps) touched(d *warehouses.Dialect) []warehouses.SQL {
	var sets []warehouses.SQL
	for _, c := range []string{updateDate, updatedBy, pipelineID, pipelineRunID, taskRunID} {
		sets = append(sets, d.Ident(d.FoldName(c))+" = "+st.inserted(c, ""))
	}
	return sets
}
