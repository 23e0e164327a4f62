package storetest

import (
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// TestAClaimThatIsNotTrueAnyMore: a process that was taken for dead, or has not looked since a person changed something,
// neither starts nor skips a task.
func TestAClaimThatIsNotTrueAnyMore(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		must(t, s.ReleaseRun(ctx, r.ID, "one"))
		must(t, s.ClaimRun(ctx, r.ID, "two", ""))
		ask := store.StartAttempt{TaskRunID: list[0].ID, From: store.Pending, RunOwner: "one", Owner: "one", Actor: Tester}
		_, err := s.StartAttempt(ctx, ask)
		wantCode(t, err, fault.RunOwned)
		skips := []store.Skip{{TaskRunID: list[1].ID, Reason: store.SkipCondition}}
		wantCode(t, s.SkipTasks(ctx, r.ID, store.Claim{Owner: "one"}, skips), fault.RunOwned)

		seen, err := s.Signal(ctx, r.ID)
		must(t, err)
		must(t, s.MarkTask(ctx, store.TaskMark{RunID: r.ID, TaskID: list[0].TaskID, Status: store.Failed, Action: store.ActionMark, Reason: "bad", Actor: Tester}))
		wantCode(t, s.SkipTasks(ctx, r.ID, store.Claim{Owner: "two", Seen: &seen.Intervention}, skips), fault.RunUnfinished)
		want(t, "tasks", states(t, s, r.ID), "extract=FAILED load=PENDING")
		seen, err = s.Signal(ctx, r.ID)
		must(t, err)
		must(t, s.SkipTasks(ctx, r.ID, store.Claim{Owner: "two", Seen: &seen.Intervention}, skips))
		want(t, "tasks", states(t, s, r.ID), "extract=FAILED load=SKIPPED/CONDITION_UNMET")
	})
}

// TestAnotherAttemptMeanwhile: two processes wait for the same retry, and the second does not start on what it knew before
// the first.
func TestAnotherAttemptMeanwhile(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		_, list := admitted(t, s)
		for n := range 2 {
			a, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, From: store.Pending, Attempts: n, Owner: "one", Actor: Tester})
			must(t, err)
			must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Failed, TaskStatus: store.Pending, RetryIn: time.Minute}))
		}
		_, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, From: store.Pending, Attempts: 1, Owner: "two", Actor: Tester})
		wantCode(t, err, fault.TaskState)
	})
}

// TestResetSkipped: only what was skipped because of a failure waits again.
func TestResetSkipped(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		finish(t, s, start(t, s, list[0].ID, "one"), store.Failed)
		must(t, s.SkipTasks(ctx, r.ID, store.Claim{}, []store.Skip{{TaskRunID: list[1].ID, Reason: store.SkipUpstream}}))
		must(t, s.ResetTasks(ctx, r.ID, store.ResetSkipped))
		want(t, "tasks", states(t, s, r.ID), "extract=FAILED load=PENDING")
	})
}
