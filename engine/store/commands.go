package store

import "time"

// Lease is how long a run or an attempt counts as alive after its start, until the first Heartbeat.
const Lease = 60 * time.Second

// NewRun asks AdmitRun for a run.
type NewRun struct {
	PipelineID   int64
	Key          string // unique within the pipeline
	Date         string // YYYY-MM-DD
	Trigger      string
	OwnerID      string // "" for a run that no process works on yet
	Actor        Actor
	ConfigSHA256 string
	Gates        []GateDecision // that let it start
	Newest       *int64         // the pipeline's newest run as the one who asks has seen it, 0 for none; nil when that does not matter
	Reason       string         // why somebody asked for it in an unusual way, "" when nobody did
}

// RunEnd is the end of a run.
type RunEnd struct {
	RunID      int64
	Owner      string // who must own the run, "" when nobody may
	Status     string // Success, Failed, Skipped or Cancelled
	SkipReason string // exactly when Status is Skipped
	Actor      Actor
	Consume    bool // a SUCCESS uses up the upstream runs that let the run start
	// Seen is the newest intervention that Status takes into account, nil for whatever there is. A newer one is
	// RUN_UNFINISHED.
	Seen *int64
}

// Reopen turns an ended run into an unfinished one.
type Reopen struct {
	RunID  int64
	Owner  string
	Actor  Actor
	Reason string
}

// ResetScope says which tasks of a run ResetTasks makes PENDING.
type ResetScope string

// Scopes of a reset. A task that is running is never reset.
const (
	ResetFailed  ResetScope = "FAILED"  // FAILED, and SKIPPED because an upstream failed
	ResetSkipped ResetScope = "SKIPPED" // only the latter
	ResetAll     ResetScope = "ALL"     // every task that has ended
)

// Skip ends one PENDING task without running it.
type Skip struct {
	TaskRunID int64  `json:"task_run_id"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// Claim is what a process that changes tasks of a run takes for true.
type Claim struct {
	Owner string // who owns the run, "" for whoever does
	Seen  *int64 // the newest intervention, nil for whichever it is
}

// StartAttempt asks for the next attempt of a task run.
type StartAttempt struct {
	TaskRunID    int64
	From         string // the status that the task run must have, "" for any
	Attempts     int    // how many attempts it must have had, with From
	RunOwner     string // who must own the run, "" for whoever does
	Owner        string
	Host         string
	PID          int
	LogPath      string
	TargetObject string
	Actor        Actor
}

// Outcome is the end of an attempt, and what the task run is after it.
type Outcome struct {
	AttemptID int64
	Owner     string
	Status    string // of the attempt: Success, Failed, TimedOut, Cancelled or Lost
	// TaskStatus is Success, Failed, Cancelled, or Pending for another try.
	TaskStatus string
	Counts     Counts // of the attempt
	TaskCounts Counts // of the task run: the attempt's, plus those of earlier attempts that had committed

	ErrorCode string
	Error     string // one line
	ErrorStep string
	ErrorHint string
	Retryable bool
	// RetryIn is how long after now, by the Engine DB's clock, the next try is due. For TaskStatus Pending.
	RetryIn time.Duration

	TaskLog      string
	SelectSHA256 string // "" leaves what was recorded
	PlanSHA256   string
	ForgetTarget *TargetName // its hash record is cleared: the target was dropped or replaced
	Consume      bool        // a SUCCESS uses up the upstream runs that let the task start
}

// ActionRecord is a state-changing command as it was asked for.
type ActionRecord struct {
	Actor         Actor
	Host          string
	Command       string
	Arguments     string // JSON, secrets masked
	PipelineID    int64  // 0 for none, likewise below
	PipelineRunID int64
	TaskRunID     int64
}

// PipelineSummary is one line of the list of pipelines.
type PipelineSummary struct {
	Pipeline
	PausedBy string // "" when not paused
	PauseWhy string
	LastRun  *Run // nil before the first one
}
