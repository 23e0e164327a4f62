package fault

// Code is a stable name of an error, part of the JSON output and of the reference.
type Code string

// Spec is what the reference says of a code.
type Spec struct {
	Code      Code
	Exit      int // exit code of a command that ends with it; inside a task run the command exits 1
	Retryable bool
	Meaning   string
}

// Codes of errors that are not about one task.
const (
	Internal           Code = "INTERNAL"
	Usage              Code = "USAGE"
	ConfigInvalid      Code = "CONFIG_INVALID"
	ConfigNotFound     Code = "CONFIG_NOT_FOUND"
	MetadataInvalid    Code = "METADATA_INVALID"
	FileInvalid        Code = "FILE_INVALID"
	FileExists         Code = "FILE_EXISTS"
	PipelineNotFound   Code = "PIPELINE_NOT_FOUND"
	TaskNotFound       Code = "TASK_NOT_FOUND"
	TableNotFound      Code = "TABLE_NOT_FOUND"
	TargetUnknown      Code = "TARGET_UNKNOWN"
	FileNotRemoved     Code = "FILE_NOT_REMOVED"
	TargetsFailed      Code = "TARGETS_FAILED"
	RunNotFound        Code = "RUN_NOT_FOUND"
	RunActive          Code = "RUN_ACTIVE"
	RunOwned           Code = "RUN_OWNED"
	RunEnded           Code = "RUN_ENDED"
	TaskState          Code = "TASK_STATE"
	WrongMode          Code = "WRONG_MODE"
	Paused             Code = "PAUSED"
	NotReady           Code = "NOT_READY"
	TaskSkipped        Code = "TASK_SKIPPED"
	RunUnfinished      Code = "RUN_UNFINISHED"
	RunFailed          Code = "RUN_FAILED"
	RunCancelled       Code = "RUN_CANCELLED"
	MarkedFailed       Code = "MARKED_FAILED"
	CheckFailed        Code = "CHECK_FAILED"
	NotificationFailed Code = "NOTIFICATION_FAILED"
	Interrupted        Code = "INTERRUPTED"
	EngineUnreachable  Code = "ENGINE_UNREACHABLE"
	EnginePooled       Code = "ENGINE_POOLED"
	EngineNotMigrated  Code = "ENGINE_NOT_MIGRATED"
	EngineNewer        Code = "ENGINE_NEWER"
	MigrationChanged   Code = "MIGRATION_CHANGED"
	MigrationFailed    Code = "MIGRATION_FAILED"
	LockTimeout        Code = "LOCK_TIMEOUT"
	LockLost           Code = "LOCK_LOST"
	StaleAttempt       Code = "STALE_ATTEMPT"
	WarehouseDown      Code = "WAREHOUSE_UNREACHABLE"
	WarehouseLocked    Code = "WAREHOUSE_LOCKED"
	TaskTimeout        Code = "TASK_TIMEOUT"
	TaskCancelled      Code = "TASK_CANCELLED"
	AttemptLost        Code = "ATTEMPT_LOST"
)

// Codes of a SQL task.
const (
	ParameterInvalid Code = "PARAMETER_INVALID"
	ParameterUnknown Code = "PARAMETER_UNKNOWN"
	ParameterMissing Code = "PARAMETER_MISSING"
	ParameterUnused  Code = "PARAMETER_NOT_APPLICABLE"
	SourceFile       Code = "SOURCE_FILE"
	SelectInvalid    Code = "SELECT_NOT_READ_ONLY"
	TokenInvalid     Code = "TOKEN_INVALID"
	ColumnReserved   Code = "COLUMN_RESERVED"
	ColumnName       Code = "COLUMN_NAME"
	ColumnDuplicate  Code = "COLUMN_DUPLICATE"
	ColumnUntyped    Code = "COLUMN_UNTYPED"
	ColumnType       Code = "COLUMN_TYPE"
	ColumnMissing    Code = "COLUMN_MISSING"
	TargetMissing    Code = "TARGET_MISSING"
	TargetKind       Code = "TARGET_NOT_A_TABLE"
	TargetShape      Code = "TARGET_SHAPE"
	TargetFormat     Code = "TARGET_FORMAT"
	TargetDependents Code = "TARGET_HAS_DEPENDENTS"
	TargetNotOwned   Code = "TARGET_NOT_OWNED"
	SchemaMissing    Code = "SCHEMA_MISSING"
	NoGenerator      Code = "ROW_ID_NO_GENERATOR"
	NewColumns       Code = "NEW_COLUMNS"
	TypeChanged      Code = "TYPE_CHANGED"
	KeyType          Code = "KEY_TYPE"
	StageChanged     Code = "STAGE_CHANGED"
	NullKeys         Code = "NULL_MERGE_KEYS"
	DuplicateKeys    Code = "DUPLICATE_MERGE_KEYS"
	DedupeTie        Code = "DEDUPE_TIE"
	HashType         Code = "HASH_TYPE"
	HashRange        Code = "HASH_RANGE"
	HashVersion      Code = "HASH_VERSION"
	HashColumns      Code = "HASH_COLUMNS"
	AuditUndecidable Code = "SETUP_UNDECIDABLE"
	DropRefused      Code = "DROP_REFUSED"
	IDReused         Code = "ID_REUSED"
	StatementFailed  Code = "STATEMENT_FAILED"
	WriteConflict    Code = "WRITE_CONFLICT"
	CommitUnknown    Code = "COMMIT_UNKNOWN"
)

// Codes that only validate reports, about the graph and the schedule.
const (
	CodeInvalid         Code = "CODE_INVALID"
	ScheduleInvalid     Code = "SCHEDULE_INVALID"
	NotificationInvalid Code = "NOTIFICATION_INVALID"
	GraphCycle          Code = "GRAPH_CYCLE"
	DependencyInvalid   Code = "DEPENDENCY_INVALID"
	ConditionUnmet      Code = "CONDITION_CANNOT_BE_MET"
	HasDataNoRows       Code = "HAS_DATA_NO_ROWS"
	HandlerUnknown      Code = "HANDLER_UNKNOWN"
	TargetKeysRepeated  Code = "TARGET_KEYS_REPEATED"
	MergeKeyUnindexed   Code = "MERGE_KEY_UNINDEXED"
	WritersDisagree     Code = "WRITERS_DISAGREE"
	WritesUnordered     Code = "WRITES_UNORDERED"
	ReadUnordered       Code = "READ_UNORDERED"
	FilesDiffer         Code = "FILES_DIFFER"
	WarehouseNotAsked   Code = "WAREHOUSE_NOT_ASKED"
)

var specs = []Spec{
	{Internal, 1, false, "a defect of etl-craft or of its surroundings that has no code of its own"},
	{Usage, 2, false, "unknown flag or bad combination of flags"},
	{ConfigInvalid, 3, false, "etl-craft.yml cannot be used; every problem is listed with line and column"},
	{ConfigNotFound, 3, false, "no etl-craft.yml in this folder or above it"},
	{MetadataInvalid, 3, false, "pipelines or tasks contradict the rules; every problem is listed"},
	{FileInvalid, 3, false, "a pipeline file cannot be read"},
	{FileExists, 5, false, "a file that would be written exists already"},
	{PipelineNotFound, 4, false, "no active pipeline has this code"},
	{TaskNotFound, 4, false, "the pipeline has no active task with this code"},
	{TableNotFound, 4, false, "no active task reads or writes this table"},
	{TargetUnknown, 4, false, "no active task names this table"},
	{FileNotRemoved, 1, false, "a log cannot be removed; its run stays"},
	{TargetsFailed, 1, false, "some targets could not be looked after; the others were"},
	{RunNotFound, 4, false, "no run has this id or key, or no run is unfinished"},
	{RunActive, 5, false, "another run of the pipeline is unfinished"},
	{RunOwned, 5, false, "a living process works on the run"},
	{RunEnded, 5, false, "the run has ended and cannot be continued that way"},
	{TaskState, 5, false, "the task is finished or running and would have to be rerun on purpose"},
	{WrongMode, 5, false, "the command is not for the configured orchestration mode"},
	{Paused, 5, false, "the pipeline is paused"},
	{NotReady, 7, false, "dependencies are not met yet; nothing was recorded"},
	{TaskSkipped, 99, false, "run --check-only: the task cannot run any more in this run and is to be skipped; nothing was recorded"},
	{RunUnfinished, 8, false, "the run is left unfinished"},
	{RunFailed, 1, false, "at least one task of the run failed"},
	{RunCancelled, 1, false, "the run was cancelled while this process worked on it"},
	{MarkedFailed, 1, false, "an operator marked the task FAILED"},
	{CheckFailed, 1, false, "a check found a FAIL"},
	{NotificationFailed, 1, true, "a webhook did not take a test message"},
	{Interrupted, 130, false, "interrupted; the same command goes on"},
	{EngineUnreachable, 9, false, "the Engine DB cannot be opened"},
	{EnginePooled, 3, false, "locks and migrations would go through a transaction pooler; `engine.direct` has to name the server itself"},
	{EngineNotMigrated, 9, false, "the Engine DB lacks tables or migrations; run `etl-craft migrate`"},
	{EngineNewer, 9, false, "the Engine DB was migrated by a newer etl-craft"},
	{MigrationChanged, 3, false, "an applied migration file was edited or is missing"},
	{MigrationFailed, 3, false, "a migration's SQL failed; nothing of that file was applied"},
	{LockTimeout, 6, true, "a lock was not obtained in time; the message names its holder"},
	{LockLost, 1, true, "the session that held the target lock was lost; nothing was committed"},
	{StaleAttempt, 1, false, "another process took the attempt over; this one recorded nothing"},
	{WarehouseDown, 10, true, "the warehouse cannot be reached"},
	{WarehouseLocked, 10, true, "another program holds the DuckDB file"},
	{TaskTimeout, 1, true, "the task ran longer than its timeout"},
	{TaskCancelled, 1, false, "the task was cancelled"},
	{AttemptLost, 1, true, "the process that ran the attempt died"},

	{ParameterInvalid, 3, false, "a parameter's value is not one of those allowed"},
	{ParameterUnknown, 3, false, "no parameter has this name; names that begin with X_ are your own"},
	{ParameterMissing, 3, false, "the action needs a parameter that is not set"},
	{ParameterUnused, 3, false, "the parameter does not apply to this action or warehouse"},
	{SourceFile, 3, false, "SOURCE_SQL_FILE is missing, outside sql_files/ or unreadable"},
	{SelectInvalid, 3, false, "the SELECT is not one read-only statement"},
	{TokenInvalid, 3, false, "a $$ token and its switch do not agree, or the token is unknown"},
	{ColumnReserved, 3, false, "the SELECT returns a column that the engine writes itself"},
	{ColumnName, 3, false, "the SELECT returns a column whose name would need quoting"},
	{ColumnDuplicate, 3, false, "the SELECT returns two columns of one name"},
	{ColumnUntyped, 3, false, "the SELECT returns a NULL without a type"},
	{ColumnType, 3, false, "the SELECT returns a column of a type that the warehouse's tables cannot store"},
	{ColumnMissing, 3, false, "a key, compare or order column is not among the SELECT's columns"},
	{TargetMissing, 1, false, "the action needs an existing target"},
	{TargetKind, 1, false, "the target is a view or another thing that cannot be written as a table"},
	{TargetShape, 1, false, "target and SELECT disagree about columns"},
	{TargetFormat, 1, false, "the target's table format is not the task's"},
	{TargetDependents, 1, false, "views or other objects depend on the target"},
	{TargetNotOwned, 1, false, "the engine's user may not replace the target"},
	{SchemaMissing, 1, false, "the target's schema does not exist"},
	{NoGenerator, 1, false, "the target's ROW_ID has no generator"},
	{NewColumns, 1, false, "the SELECT returns columns that the target lacks and SCHEMA_EVOLUTION is not true"},
	{TypeChanged, 1, false, "evolution would have to change a column's type"},
	{KeyType, 1, false, "the target could take two keys of the SELECT for the same"},
	{StageChanged, 1, true, "the SELECT's columns changed between planning and staging"},
	{NullKeys, 1, false, "the SELECT returned rows without a merge key"},
	{DuplicateKeys, 1, false, "the SELECT returned a merge key more than once"},
	{DedupeTie, 1, false, "MERGE_DEDUPE_ORDER ties between rows that differ"},
	{HashType, 3, false, "a compare column's type cannot be hashed"},
	{HashRange, 1, false, "dates outside the years 1 to 9999 cannot be hashed"},
	{HashVersion, 1, false, "the target's hashes are of an older or unknown version"},
	{HashColumns, 1, false, "the target was hashed with another MERGE_COMPARE_COLUMNS list"},
	{AuditUndecidable, 3, false, "SETUP_TABLE cannot tell which audit columns the target needs"},
	{DropRefused, 1, false, "DROP_TABLE without a successful CREATE_TABLE of this run"},
	{IDReused, 1, false, "the target already holds task run ids as high as this one"},
	{StatementFailed, 1, false, "the warehouse refused a statement"},
	{WriteConflict, 1, true, "another writer changed the target at the same time"},
	{CommitUnknown, 1, true, "the connection broke during COMMIT; the next attempt finds out"},

	{CodeInvalid, 3, false, "a code is not a letter followed by letters, digits and _, at most 128"},
	{ScheduleInvalid, 3, false, "schedule or timezone cannot be read"},
	{NotificationInvalid, 3, false, "notifications of a pipeline cannot be read, or name no webhook of the profile"},
	{GraphCycle, 3, false, "tasks or pipelines depend on each other in a circle"},
	{DependencyInvalid, 3, false, "a dependency names something that is inactive, unknown or itself"},
	{ConditionUnmet, 3, false, "run_condition asks for more dependencies than there are, or than can hold together"},
	{HasDataNoRows, 3, false, "HAS_DATA on a task or pipeline that reports no rows"},
	{HandlerUnknown, 3, false, "no handler has this name"},
	{TargetKeysRepeated, 1, false, "a merge target has a key in more than one active row"},
	{MergeKeyUnindexed, 1, false, "a large merge target has no index on its keys"},
	{WritersDisagree, 3, false, "writers of one target disagree about its format, audit columns or compare columns"},
	{WritesUnordered, 3, false, "two tasks write one table, and no dependency says which comes first; a warning"},
	{ReadUnordered, 3, false, "a task reads a table that another writes, and no dependency puts it behind; a warning"},
	{FilesDiffer, 3, false, "pipeline files and Engine DB differ"},
	{WarehouseNotAsked, 3, false, "validate --connect could not ask the warehouse about a pipeline or task"},
}

var byCode = func() map[Code]Spec {
	m := make(map[Code]Spec, len(specs))
	for _, s := range specs {
		m[s.Code] = s
	}
	return m
}()

// Specs lists every code in the order of the reference.
func Specs() []Spec { return specs }

func (c Code) spec() Spec {
	s, ok := byCode[c]
	if !ok {
		return Spec{Code: c, Exit: 1}
	}
	return s
}
