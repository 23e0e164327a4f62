package store

import "time"

// Dependency types.
const (
	OnSuccess = "SUCCESS"
	OnFailure = "FAILURE"
	OnAlways  = "ALWAYS"
	OnHasData = "HAS_DATA"
)

// Run, task and attempt statuses; the CHECK constraints of the migrations list the same ones.
const (
	Queued     = "QUEUED"      // run, attempt
	InProgress = "IN_PROGRESS" // run, task
	Pending    = "PENDING"     // task
	Running    = "RUNNING"     // attempt
	Success    = "SUCCESS"
	Failed     = "FAILED"
	Skipped    = "SKIPPED" // run, task
	Cancelled  = "CANCELLED"
	TimedOut   = "TIMED_OUT" // attempt
	Lost       = "LOST"      // attempt
)

// Skip reasons.
const (
	SkipGate         = "GATE_REFUSED"
	SkipCondition    = "CONDITION_UNMET"
	SkipUpstream     = "UPSTREAM_FAILED"
	SkipOperator     = "OPERATOR"
	SkipOrchestrator = "ORCHESTRATOR"
	SkipMissedTick   = "MISSED_TICK"
)

// Which run of the upstream satisfies a dependency.
const (
	MatchNewest   = "NEWEST"
	MatchSameDate = "SAME_DATE" // the newest with the dependent's run date
)

// Triggers of a run.
const (
	TriggerManual       = "MANUAL"
	TriggerSchedule     = "SCHEDULE"
	TriggerBackfill     = "BACKFILL"
	TriggerOrchestrator = "ORCHESTRATOR"
	TriggerStandIn      = "STAND_IN"
)

// Attempt phases: how far an attempt came towards changing its target.
const (
	PhaseStarted    = "STARTED"    // nothing of the target was touched
	PhaseWriting    = "WRITING"    // statements that commit alone may have changed the target
	PhaseCommitting = "COMMITTING" // the one commit was about to happen; its outcome is in the warehouse
)

// Pipeline is a row of CFG_PIPELINES.
type Pipeline struct {
	ID                 int64
	Code, Name         string
	Description        string
	RefreshType        string // FULL or INCREMENTAL
	Schedule           string
	Timezone           string
	StartDate          string // YYYY-MM-DD, of the schedule; "" for none
	Catchup            bool   // an orchestrator makes up for missed ticks
	SLAHours           *float64
	Notifications      Subscriptions // its own, which count instead of the configuration's for the webhooks they name; nil for none
	NotificationsError error         // why PIPELINE_PARAMETERS holds none that can be read
	Active             bool
	Origin             string // "file pipelines/SALES.yml", "migration 0003_sales.sql", "" for rows made otherwise
}

// Task is a row of CFG_TASKS with its active parameters and its incoming edges.
type Task struct {
	ID             int64
	Code           string
	Type           string // INGESTION or ETL
	PipelineID     int64
	PipelineCode   string
	Handler        string // SQL
	RunCondition   string // ALL, ANY or N; "" reads as ALL
	ConditionCount int    // for N
	Params         map[string]string
	DependsOn      []TaskEdge
	Origin         string
}

// TaskEdge says that a task waits for another one.
type TaskEdge struct {
	ID             int64
	PipelineID     int64 // of the task waited for
	PipelineCode   string
	TaskID         int64
	TaskCode       string
	TaskActive     bool // the task waited for and its pipeline are active
	Type           string
	Match          string // MatchNewest or MatchSameDate, for edges to other pipelines
	ConsumeRepairs bool
}

// PipelineEdge says that a pipeline waits for another one.
type PipelineEdge struct {
	ID             int64
	PipelineID     int64 // of the pipeline waited for
	PipelineCode   string
	PipelineActive bool
	Type           string
	Match          string
	ConsumeRepairs bool
}

// Graph is all active metadata of one pipeline.
type Graph struct {
	Pipeline  Pipeline
	DependsOn []PipelineEdge
	Tasks     []Task // in order of their ids
	PausedBy  string // "" when not paused
	PauseWhy  string
}

// Task finds a task of the graph by code (exact), nil when there is none.
func (g *Graph) Task(code string) *Task {
	for i := range g.Tasks {
		if g.Tasks[i].Code == code {
			return &g.Tasks[i]
		}
	}
	return nil
}

// Actor is who asked for a change.
type Actor struct {
	Name string // $ETL_CRAFT_ACTOR, else user@host
	Kind string // HUMAN, SCHEDULE, ORCHESTRATOR, WORKER, SYSTEM
}

// Run is a row of AUD_PIPELINES_RUN_LOG.
type Run struct {
	ID             int64
	PipelineID     int64
	PipelineCode   string
	Key            string
	Date           string // YYYY-MM-DD
	Trigger        string
	Status         string
	SkipReason     string
	StartedAt      time.Time
	EndedAt        *time.Time
	OwnerID        string // "" when no process works on it
	LeaseExpired   bool   // by the Engine DB's clock
	OutputRevision int
	RepairPending  bool
	SLAStatus      string // MET, BREACHED, "" before the end or without an SLA
	StartedBy      Actor
	EndedBy        Actor
}

// Ended reports whether the run is over.
func (r *Run) Ended() bool { return r.Status != Queued && r.Status != InProgress }

// Counts are what a task run did to its target; nil is "not counted".
type Counts struct {
	Source, Target         *int64
	Insert, Update, Delete *int64
	Written                *int64
}

// TaskRun is a row of AUD_TASK_RUN_LOG.
type TaskRun struct {
	ID         int64
	RunID      int64
	TaskID     int64
	TaskCode   string
	Handler    string
	Action     string // SQL_ACTION of the task as it stands now
	TargetName string // TARGET_OBJECT as recorded by the last attempt, else as it stands now
	Status     string
	SkipReason string
	Attempts   int
	Counts     Counts
	ErrorCode  string
	Error      string
	ErrorStep  string
	ErrorHint  string
	StartedAt  *time.Time
	EndedAt    *time.Time
	NotBefore  *time.Time // when a retry is due
}

// Attempt is a row of AUD_TASK_ATTEMPTS.
type Attempt struct {
	ID           int64
	TaskRunID    int64
	Number       int
	Status       string
	Phase        string
	Instant      *time.Time // stamped on the rows this attempt writes; distinct within a task run
	Witness      string     // how to see in the warehouse that the attempt committed, "" when there is no way
	Committed    *bool      // what a later attempt found out
	Planned      Counts     // recorded before the commit
	Counts       Counts
	OwnerID      string
	Host         string
	PID          int
	LeaseExpired bool
	QueuedAt     time.Time
	StartedAt    *time.Time
	EndedAt      *time.Time
	NotBefore    *time.Time
	Retryable    bool
	ErrorCode    string
	Error        string
	ErrorStep    string
	ErrorHint    string
	LogPath      string
	SelectSHA256 string
	PlanSHA256   string
}

// TargetRecord is what the Engine DB knows of a warehouse table: rows of AUD_TARGETS and AUD_TARGET_HASH_VERSION.
type TargetRecord struct {
	Known          bool // this Engine DB has written the target, under this identity
	HashVersion    int  // 0 when nothing is recorded for this identity
	CompareColumns string
}

// Change is a row of AUD_METADATA_CHANGES to read.
type Change struct {
	At        time.Time
	Actor     Actor
	Table     string
	RowKey    string
	Operation string
	Before    string
	After     string
	Origin    string
}

// TargetName keys what the Engine DB knows of a warehouse table.
type TargetName struct {
	Identity string // the warehouse, as it names itself
	Name     string // database.schema.table, folded
}

// Progress is made durable before the step it announces.
type Progress struct {
	Phase   string
	Planned Counts
	Witness string
	Target  TargetName // recorded as known
	// HashVersion and CompareColumns are recorded for Target when HashVersion is not 0.
	HashVersion    int
	CompareColumns string
	// The engine fills these in, from the plan that the handler saved.
	SelectSHA256 string
	PlanSHA256   string
}
