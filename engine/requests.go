package engine

import (
	"fmt"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/shell"
)

// RunRequest says what Run shall do. The zero value of a field is "not given".
type RunRequest struct {
	Pipeline     string `json:"pipeline"`
	RunID        int64  `json:"run_id,omitempty"`
	RunKey       string `json:"run_key,omitempty"`
	Task         string `json:"task,omitempty"`
	RunDate      string `json:"run_date,omitempty"` // YYYY-MM-DD
	InitOnly     bool   `json:"init_only,omitempty"`
	FinalizeOnly bool   `json:"finalize_only,omitempty"`

	// These need a Reason; Reason needs one of them.
	Force              bool   `json:"force,omitempty"`               // all tasks, or Task, whatever status, dependencies and gates are
	Rerun              bool   `json:"rerun,omitempty"`               // Task, though it has finished
	WithDownstream     bool   `json:"with_downstream,omitempty"`     // with Rerun: what waits for Task too
	IgnoreDependencies bool   `json:"ignore_dependencies,omitempty"` // Task, though its dependencies are not met
	Backfill           string `json:"backfill,omitempty"`            // dates A:B, for Engine.Backfill
	Reason             string `json:"reason,omitempty"`
}

// StatusRequest chooses a run; without id and key it is the unfinished one, else the newest.
type StatusRequest struct {
	Pipeline string
	RunID    int64
	RunKey   string
}

// PlanRequest says what Plan shall plan.
type PlanRequest struct {
	Pipeline string
	Task     string // "" for all
	Offline  bool   // without a connection
}

// whichRun are the flags that say which run is meant, each after a blank.
func (r *RunRequest) whichRun() string {
	flags := ""
	if r.RunID != 0 {
		flags += fmt.Sprintf(" --run-id %d", r.RunID)
	}
	if r.RunKey != "" {
		flags += " --run-key " + shell.Quoted(r.RunKey)
	}
	if r.RunDate != "" {
		flags += " --run-date " + r.RunDate
	}
	return flags
}

func (r *RunRequest) check() error {
	switch {
	case r.Pipeline == "":
		return fault.New(fault.Usage, "--pipeline is missing").WithHint("etl-craft list")
	case r.RunID != 0 && r.RunKey != "":
		return fault.New(fault.Usage, "--run-id and --run-key exclude each other")
	case r.InitOnly && r.FinalizeOnly:
		return fault.New(fault.Usage, "--init-only and --finalize-only exclude each other")
	case r.Task != "" && (r.InitOnly || r.FinalizeOnly):
		return fault.New(fault.Usage, "--task excludes --init-only and --finalize-only")
	case r.RunDate != "" && r.FinalizeOnly:
		return fault.New(fault.Usage, "--run-date is for new runs, --finalize-only ends one")
	case r.RunID < 0:
		return fault.New(fault.Usage, "--run-id is a number above 0")
	}
	if err := r.checkAgain(); err != nil {
		return err
	}
	if r.RunDate == "" {
		return nil
	}
	if _, err := time.Parse(time.DateOnly, r.RunDate); err != nil {
		return fault.New(fault.Usage, "--run-date %q is not a date", r.RunDate).WithHint("write it as 2026-09-01")
	}
	return nil
}
