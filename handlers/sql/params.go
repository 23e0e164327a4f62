package sql

import (
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/sqlscan"
)

// Actions.
const (
	CreateTable    = "CREATE_TABLE"
	SetupTable     = "SETUP_TABLE"
	OverwriteTable = "OVERWRITE_TABLE"
	AppendTable    = "APPEND_TABLE"
	SCD1Merge      = "SCD1_MERGE"
	SCD2Merge      = "SCD2_MERGE"
	DropTable      = "DROP_TABLE"
	DeleteRows     = "DELETE_ROWS"
)

// Actions lists every action in the order of the reference.
var Actions = []string{CreateTable, SetupTable, OverwriteTable, AppendTable, SCD1Merge, SCD2Merge, DropTable, DeleteRows}

var (
	merges     = []string{SCD1Merge, SCD2Merge}
	withSelect = []string{CreateTable, SetupTable, OverwriteTable, AppendTable, SCD1Merge, SCD2Merge, DeleteRows}
	writers    = []string{CreateTable, OverwriteTable, AppendTable, SCD1Merge, SCD2Merge}
	creators   = []string{CreateTable, SetupTable}
)

// params declares every parameter of a SQL task.
var params = append([]handlers.Param{
	{Name: "SQL_ACTION", Type: handlers.EnumParam, Allowed: Actions, Required: append([]string{""}, Actions...), Help: "what to do with the SELECT's rows"},
	{Name: "TARGET_OBJECT", Type: handlers.TextParam, Required: append([]string{""}, Actions...), Help: "the table: schema.table, or database.schema.table"},
	{Name: "SOURCE_SQL", Type: handlers.TextParam, Actions: withSelect, Help: "the SELECT itself; or name a file with SOURCE_SQL_FILE"},
	{Name: "SOURCE_SQL_FILE", Type: handlers.TextParam, Actions: withSelect, Help: "a file inside sql_files/ that holds the SELECT"},
	{Name: sqlscan.PipelineID.Switch(), Type: handlers.BoolParam, Default: "false", Actions: withSelect, Help: "replaces $$pipeline_id by the pipeline's id"},
	{Name: sqlscan.PipelineRunID.Switch(), Type: handlers.BoolParam, Default: "false", Actions: withSelect, Help: "replaces $$pipeline_run_id by the run's id"},
	{Name: sqlscan.TaskRunID.Switch(), Type: handlers.BoolParam, Default: "false", Actions: withSelect, Help: "replaces $$task_run_id by this task execution's id, the same for its retries"},
	{Name: sqlscan.PipelineRunIDFilter.Switch(), Type: handlers.BoolParam, Default: "false", Actions: withSelect, Help: "replaces $$pipeline_run_id_filter by pipeline_run_id = N, or 1=1 when REFRESH_TYPE is FULL"},
	{Name: sqlscan.RunDate.Switch(), Type: handlers.BoolParam, Default: "false", Actions: withSelect, Help: "replaces $$run_date by the run's date, as DATE '2026-09-01'"},
	{Name: "MERGE_KEY", Type: handlers.ColumnsParam, Actions: []string{SCD1Merge, SCD2Merge, DeleteRows}, Required: []string{SCD1Merge, SCD2Merge, DeleteRows}, Help: "columns that identify a row"},
	{Name: "MERGE_COMPARE_COLUMNS", Type: handlers.ColumnsParam, Actions: merges, Required: merges, Help: "columns whose change makes a row changed"},
	{Name: "MERGE_DEDUPE_ORDER", Type: handlers.TextParam, Actions: merges, Help: "which row of a repeated key is kept: the first in this order, such as updated_at DESC"},
	{Name: "SETUP_FOR", Type: handlers.EnumParam, Allowed: writers, Actions: []string{SetupTable}, Help: "the action whose audit columns the table gets, when no task of the pipeline writes it"},
	{Name: "SCHEMA_EVOLUTION", Type: handlers.BoolParam, Default: "false", Actions: []string{OverwriteTable, SCD1Merge, SCD2Merge}, Help: "adds columns that the SELECT returns and the target lacks"},
	{Name: "PRESERVE_TARGET", Type: handlers.BoolParam, Default: "false", Actions: []string{SCD1Merge}, Help: "keeps the target's value where the SELECT returns NULL"},
	{Name: "HARD_DELETE", Type: handlers.BoolParam, Default: "false", Actions: []string{DeleteRows}, Help: "deletes rows instead of flagging them"},
	{Name: "TABLE_FORMAT", Type: handlers.EnumParam, Allowed: []string{"native", "iceberg"}, Default: "warehouse.table_format", Help: "format of this task's target"},
	{Name: "EXTERNAL_LOCATION", Type: handlers.TextParam, Actions: creators, Storage: true, Help: "where the table's files live"},
	{Name: "EXTERNAL_VOLUME", Type: handlers.TextParam, Actions: creators, Storage: true, Help: "customer volume of an Iceberg table"},
	{Name: "BASE_LOCATION", Type: handlers.TextParam, Actions: creators, Storage: true, Help: "path in the customer volume"},
	{Name: "CATALOG", Type: handlers.TextParam, Actions: creators, Storage: true, Help: "catalog integration of an Iceberg table"},
}, handlers.CommonParams...)
