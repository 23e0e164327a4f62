package store

import "errors"

// DesiredPipeline is a pipeline as a file declares it, with its defaults filled in: the rows that ApplyMetadata makes.
type DesiredPipeline struct {
	Code          string
	Name          string
	Description   string
	RefreshType   string // FULL or INCREMENTAL
	Schedule      string
	Timezone      string
	SLAHours      *float64
	Notifications Subscriptions // nil for none of its own
	DependsOn     []DesiredPipelineEdge
	Tasks         []DesiredTask
	Origin        string // "file pipelines/SALES.yml"
}

// DesiredPipelineEdge says that a pipeline waits for another one.
type DesiredPipelineEdge struct {
	Pipeline       string // code of the pipeline waited for
	Type           string // OnSuccess, OnFailure, OnAlways or OnHasData
	Match          string // MatchNewest or MatchSameDate; "" reads as MatchNewest
	ConsumeRepairs bool
}

// DesiredTask is a task of a DesiredPipeline.
type DesiredTask struct {
	Code           string
	Type           string // INGESTION or ETL
	Handler        string
	RunCondition   string // ALL, ANY or N; "" reads as ALL
	ConditionCount int    // for N
	Params         map[string]string
	DependsOn      []DesiredTaskEdge
}

// DesiredTaskEdge says that a task waits for another one.
type DesiredTaskEdge struct {
	Pipeline       string // code of that task's pipeline; "" is the own one
	Task           string // code of the task waited for
	Type           string
	Match          string
	ConsumeRepairs bool
}

// ErrDryRun, returned by the check of ApplyMetadata, undoes everything and is no error.
var ErrDryRun = errors.New("dry run")

// ApplyReport lists what ApplyMetadata changed or, after ErrDryRun, would change; none means that rows and files agree.
type ApplyReport struct {
	Changes []ApplyChange
}

// ApplyChange is one row inserted, updated, retired or brought back.
type ApplyChange struct {
	Operation string // Inserted, Updated, Retired or Restored
	Object    string // pipeline, task, parameter, task dependency or pipeline dependency
	Key       string // "SALES", "SALES.load_orders", "SALES.load_orders.SQL_ACTION", "SALES.load_orders <- RAW.extract on SUCCESS"
	Columns   []ColumnChange
}

// Operations of an ApplyChange.
const (
	Inserted = "INSERT"
	Updated  = "UPDATE"
	Retired  = "RETIRE"
	Restored = "RESTORE" // a retired row of the same key became active again and kept its id
)

// ColumnChange is one column's text before and after; "" is NULL.
type ColumnChange struct {
	Column   string
	Old, New string
}
