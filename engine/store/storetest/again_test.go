package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// ended is a run of SALES in SUCCESS, with its task runs.
func ended(t *testing.T, s *store.Store) (*store.Run, []store.TaskRun) {
	t.Helper()
	r, list := admitted(t, s)
	for _, task := range list {
		finish(t, s, start(t, s, task.ID, "one"), store.Success)
	}
	must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
	return r, list
}

// intervened lists the interventions in all runs: "REOPEN SUCCESS IN_PROGRESS because".
func intervened(t *testing.T, s *store.Store) string {
	t.Helper()
	n := Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_RUN_INTERVENTIONS")
	var all []string
	for i := range n[0] - '0' {
		all = append(all, Value(t, s, fmt.Sprintf(`SELECT i.ACTION || COALESCE(' ' || t.TASK_CODE, '') || ' ' || i.FROM_STATUS || ' ' || COALESCE(i.TO_STATUS, '-') || ' ' ||
			i.REASON || COALESCE(' ' || i.PREVIOUS_MESSAGE, '')
			FROM {{schema}}.AUD_RUN_INTERVENTIONS i LEFT JOIN {{schema}}.CFG_TASKS t ON t.TASK_ID = i.TASK_ID
			ORDER BY i.INTERVENTION_ID LIMIT 1 OFFSET %d`, i)))
	}
	return strings.Join(all, "; ")
}

func TestOneTaskRunsAgain(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := ended(t, s)
		again := store.Again{RunID: r.ID, Actor: Tester, Reason: "because", TaskRun: list[0].ID, From: store.Failed, Action: store.ActionRerun, Downstream: []int64{list[1].ID}}
		wantCode(t, s.RunAgain(ctx, again), fault.TaskState)
		want(t, "a refusal leaves the run", run(t, s, r.ID).Status, store.Success)
		want(t, "and records nothing", intervened(t, s), "")

		again.From = store.Success
		must(t, s.RunAgain(ctx, again))
		reopened := run(t, s, r.ID)
		want(t, "status", reopened.Status, store.InProgress)
		want(t, "owner", reopened.OwnerID, "")
		want(t, "repair", reopened.RepairPending, true)
		for _, task := range tasks(t, s, r.ID) {
			want(t, task.TaskCode, task.Status+" "+text(task.Counts), "PENDING - - - - - -")
			want(t, "attempts of "+task.TaskCode, task.Attempts, 1)
		}
		want(t, "interventions", intervened(t, s),
			"REOPEN SUCCESS IN_PROGRESS because; RERUN extract SUCCESS PENDING because; RESET load SUCCESS PENDING because")

		// In the unfinished run: what is running is not touched, and neither is a run that somebody owns.
		a := start(t, s, list[0].ID, "two")
		wantCode(t, s.RunAgain(ctx, store.Again{RunID: r.ID, Actor: Tester, Reason: "r", TaskRun: list[0].ID, From: store.Pending, Action: store.ActionReset}), fault.TaskState)
		wantCode(t, s.RunAgain(ctx, store.Again{RunID: r.ID, Actor: Tester, Reason: "r", TaskRun: list[1].ID, From: store.Pending,
			Action: store.ActionReset, Downstream: []int64{list[0].ID}}), fault.TaskState)
		finish(t, s, a, store.Success)
		must(t, s.ClaimRun(ctx, r.ID, "three", ""))
		wantCode(t, s.RunAgain(ctx, again), fault.RunOwned)
		again.Owner = "three"
		must(t, s.RunAgain(ctx, again))
		want(t, "task", tasks(t, s, r.ID)[0].Status, store.Pending)
		want(t, "attempts", len(attempts(t, s, list[0].ID)), 2)
	})
}

func TestIgnoringDependenciesIsNoRepair(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		err := s.FinishAttempt(ctx, store.Outcome{AttemptID: start(t, s, list[1].ID, "one").ID, Owner: "one", Status: store.Failed, TaskStatus: store.Failed, ErrorCode: "X", Error: "no room"})
		must(t, err)
		again := store.Again{RunID: r.ID, Owner: "one", Actor: Tester, Reason: "r", TaskRun: list[1].ID, From: store.Failed, Action: store.ActionIgnore}
		must(t, s.RunAgain(ctx, again))
		want(t, "repair", run(t, s, r.ID).RepairPending, false)
		want(t, "interventions", intervened(t, s), "IGNORE_DEPENDENCIES load FAILED PENDING r no room")
		for _, task := range list {
			finish(t, s, start(t, s, task.ID, "one"), store.Success)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
		again.From = store.Success
		wantCode(t, s.RunAgain(ctx, again), fault.RunEnded)
	})
}

func TestAllTasksRunAgain(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := ended(t, s)
		all := store.Again{RunID: r.ID, Owner: "two", Actor: Tester, Reason: "because", All: true}
		must(t, s.RunAgain(ctx, all))
		want(t, "owner", run(t, s, r.ID).OwnerID, "two")
		want(t, "interventions", intervened(t, s), "REOPEN SUCCESS IN_PROGRESS because; RESET SUCCESS - because")
		for _, task := range list {
			finish(t, s, start(t, s, task.ID, "two"), store.Success)
		}
		must(t, s.RunAgain(ctx, all)) // the run is unfinished, and two's
		for _, task := range tasks(t, s, r.ID) {
			want(t, task.TaskCode, task.Status, store.Pending)
			finish(t, s, start(t, s, task.ID, "two"), store.Success)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "two", Status: store.Success, Actor: Tester}))
		want(t, "revision", run(t, s, r.ID).OutputRevision, 2)

		other, err := s.AdmitRun(ctx, newRun(r.PipelineID, "manual:2"))
		must(t, err)
		err = s.RunAgain(ctx, all)
		wantCode(t, err, fault.RunActive)
		if !strings.Contains(err.Error(), idText(other.ID)) {
			t.Fatalf("%v does not name run %d", err, other.ID)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: other.ID, Owner: "one", Status: store.Cancelled, Actor: Tester}))
		all.RunID = other.ID
		wantCode(t, s.RunAgain(ctx, all), fault.RunEnded)
		all.RunID = 5
		wantCode(t, s.RunAgain(ctx, all), fault.RunNotFound)
	})
}

// TestConsumedSkipStays: a skip that a task of another pipeline has used up is not undone.
func TestConsumedSkipStays(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		mart := store.DesiredPipeline{Code: "MART", Name: "Mart", RefreshType: "FULL", Tasks: []store.DesiredTask{{Code: "m", Type: "ETL", Handler: "SQL",
			DependsOn: []store.DesiredTaskEdge{{Pipeline: "SALES", Task: "load", Type: store.OnAlways, ConsumeRepairs: true}}}}}
		apply(t, s, mart)
		finish(t, s, start(t, s, list[0].ID, "one"), store.Failed)
		must(t, s.SkipTasks(ctx, r.ID, store.Claim{}, []store.Skip{{TaskRunID: list[1].ID, Reason: store.SkipUpstream, Message: "extract failed"}}))
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester}))

		g := graph(t, s, "MART")
		dependent, err := s.AdmitRun(ctx, newRun(g.Pipeline.ID, "manual:1"))
		must(t, err)
		m := tasks(t, s, dependent.ID)[0]
		edge := g.Tasks[0].DependsOn[0].ID
		must(t, s.RecordGates(ctx, Tester, g.Pipeline.ID, dependent.ID, m.ID, []store.GateDecision{
			{TaskEdgeID: edge, RunID: r.ID, TaskRunID: list[1].ID, Revision: 1, Result: store.GateSatisfied}}))
		consumed, err := s.HasConsumed(ctx, dependent.ID, m.TaskID)
		must(t, err)
		want(t, "before", consumed, false)
		must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: start(t, s, m.ID, "one").ID, Owner: "one", Status: store.Success, TaskStatus: store.Success, Consume: true}))
		consumed, err = s.HasConsumed(ctx, dependent.ID, m.TaskID)
		must(t, err)
		want(t, "after", consumed, true)

		must(t, s.RunAgain(ctx, store.Again{RunID: r.ID, Actor: Tester, Reason: "r", TaskRun: list[0].ID, From: store.Failed, Action: store.ActionRerun, Downstream: []int64{list[1].ID}}))
		list = tasks(t, s, r.ID)
		want(t, "tasks", list[0].Status+" "+list[1].Status, "PENDING SKIPPED")
	})
}

func TestBackfills(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		for _, task := range list {
			finish(t, s, start(t, s, task.ID, "one"), store.Success)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
		var ids []int64
		for _, day := range []string{"2026-09-01", "2026-09-02"} {
			n := newRun(r.PipelineID, "backfill:"+day+":x")
			n.Date, n.Trigger, n.Reason = day, store.TriggerBackfill, "late"
			b, err := s.AdmitRun(ctx, n)
			must(t, err)
			ids = append(ids, b.ID)
			must(t, s.EndRun(ctx, store.RunEnd{RunID: b.ID, Owner: "one", Status: store.Cancelled, Actor: Tester}))
		}
		runs, err := s.Backfills(ctx, r.PipelineID, 10)
		must(t, err)
		want(t, "runs", len(runs), 2)
		want(t, "newest", runs[0].ID, ids[1])
		want(t, "date", runs[0].Date, "2026-09-02")
		runs, err = s.Backfills(ctx, r.PipelineID, 1)
		must(t, err)
		want(t, "limited", len(runs), 1)
		want(t, "reason", Value(t, s, "SELECT ACTION || ' ' || TO_STATUS || ' ' || REASON FROM {{schema}}.AUD_RUN_INTERVENTIONS ORDER BY INTERVENTION_ID LIMIT 1"), "NEW_RUN IN_PROGRESS late")
	})
}
