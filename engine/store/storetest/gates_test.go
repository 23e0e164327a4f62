package storetest

import (
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// upstreamRun makes a run of SALES whose task extract ended like that, having written rows, and ends the run.
func upstreamRun(t *testing.T, s *store.Store, key, trigger, status string, written int64) *store.Run {
	t.Helper()
	g := graph(t, s, "SALES")
	n := newRun(g.Pipeline.ID, key)
	n.Trigger = trigger
	r, err := s.AdmitRun(ctx, n)
	must(t, err)
	list := tasks(t, s, r.ID)
	a := start(t, s, list[0].ID, "one")
	must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: status, TaskStatus: status,
		TaskCounts: store.Counts{Written: &written}}))
	must(t, s.SkipTasks(ctx, r.ID, store.Claim{}, []store.Skip{{TaskRunID: list[1].ID, Reason: store.SkipCondition}}))
	must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: status, Actor: Tester}))
	return run(t, s, r.ID)
}

// downstream is a pipeline that depends on SALES, and whose task depends on SALES.extract.
func downstream(on string) store.DesiredPipeline {
	return store.DesiredPipeline{
		Code: "REPORT", Name: "Report", RefreshType: "FULL",
		DependsOn: []store.DesiredPipelineEdge{{Pipeline: "SALES", Type: on, ConsumeRepairs: true}},
		Tasks: []store.DesiredTask{{Code: "show", Type: "ETL", Handler: "SQL", DependsOn: []store.DesiredTaskEdge{
			{Pipeline: "SALES", Task: "extract", Type: on, ConsumeRepairs: true}}}},
	}
}

// gatesOf are the gates of REPORT: its own and that of its task.
func gatesOf(t *testing.T, s *store.Store) (pipeline, task store.Gate) {
	t.Helper()
	g := graph(t, s, "REPORT")
	p, e := g.DependsOn[0], g.Tasks[0].DependsOn[0]
	return store.Gate{PipelineEdgeID: p.ID, UpstreamPipelineID: p.PipelineID, Type: p.Type, ConsumeRepairs: p.ConsumeRepairs},
		store.Gate{TaskEdgeID: e.ID, UpstreamPipelineID: e.PipelineID, UpstreamTaskID: e.TaskID, Type: e.Type, ConsumeRepairs: e.ConsumeRepairs}
}

func look(t *testing.T, s *store.Store, g store.Gate) store.Upstream {
	t.Helper()
	u, err := s.LookUpstream(ctx, g)
	must(t, err)
	return u
}

// TestGateTypes: which ended run satisfies which type, for a pipeline and for a task.
func TestGateTypes(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales(), downstream(store.OnSuccess))
		pipeline, task := gatesOf(t, s)
		want(t, "no run", look(t, s, pipeline), store.Upstream{})
		empty := upstreamRun(t, s, "empty", store.TriggerManual, store.Success, 0)
		full := upstreamRun(t, s, "full", store.TriggerManual, store.Success, 5)
		upstreamRun(t, s, "backfill", store.TriggerBackfill, store.Success, 5)
		emptier := upstreamRun(t, s, "emptier", store.TriggerManual, store.Success, 0)
		failed := upstreamRun(t, s, "failed", store.TriggerManual, store.Failed, 0)
		for on, id := range map[string]int64{
			store.OnSuccess: emptier.ID, store.OnHasData: full.ID, store.OnFailure: failed.ID, store.OnAlways: failed.ID,
		} {
			pipeline.Type, task.Type = on, on
			want(t, on+" of a pipeline", look(t, s, pipeline).RunID, id)
			u := look(t, s, task)
			want(t, on+" of a task", u.RunID, id)
			want(t, on+" names the task run", u.TaskRunID, tasks(t, s, id)[0].ID)
			want(t, on+" has a revision", u.Revision, 1)
		}
		pipeline.Type, pipeline.Date = store.OnSuccess, "2026-09-02"
		want(t, "another date", look(t, s, pipeline).RunID, int64(0))
		pipeline.Date = empty.Date
		want(t, "this date", look(t, s, pipeline).RunID, emptier.ID)
		n := newRun(empty.PipelineID, "busy")
		busy, err := s.AdmitRun(ctx, n)
		must(t, err)
		u := look(t, s, pipeline)
		want(t, "busy", u.Busy, busy.ID)
		want(t, "busy", u.BusyStatus, store.InProgress)
	})
}

// TestAdmissionWhatWasUsedUp: a decision is worth nothing when its run was used up before the admission.
func TestAdmissionWhatWasUsedUp(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales(), downstream(store.OnSuccess))
		pipeline, _ := gatesOf(t, s)
		up := upstreamRun(t, s, "up", store.TriggerManual, store.Success, 1)
		n := newRun(graph(t, s, "REPORT").Pipeline.ID, "first")
		n.Gates = []store.GateDecision{{PipelineEdgeID: pipeline.PipelineEdgeID, RunID: up.ID, Revision: 1, Result: store.GateSatisfied}}
		r, err := s.AdmitRun(ctx, n)
		must(t, err)
		finish(t, s, start(t, s, tasks(t, s, r.ID)[0].ID, "one"), store.Success)
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester, Consume: true}))
		n.Key = "second"
		_, err = s.AdmitRun(ctx, n)
		wantCode(t, err, fault.RunActive)
		n.Gates[0].Revision = 2 // a repair
		_, err = s.AdmitRun(ctx, n)
		must(t, err)
	})
}

// TestConsumption: in the transaction of the end, of the run and of the task, once.
func TestConsumption(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales(), downstream(store.OnSuccess))
		pipeline, task := gatesOf(t, s)
		up := upstreamRun(t, s, "up", store.TriggerManual, store.Success, 1)
		decisions := []store.GateDecision{{PipelineEdgeID: pipeline.PipelineEdgeID, RunID: up.ID, Revision: 1, Result: store.GateSatisfied}}
		n := newRun(graph(t, s, "REPORT").Pipeline.ID, "down")
		n.Gates = decisions
		r, err := s.AdmitRun(ctx, n)
		must(t, err)
		own := tasks(t, s, r.ID)[0]
		must(t, s.RecordGates(ctx, Tester, r.PipelineID, r.ID, own.ID, []store.GateDecision{
			{TaskEdgeID: task.TaskEdgeID, RunID: up.ID, TaskRunID: tasks(t, s, up.ID)[0].ID, Revision: 1, Result: store.GateSatisfied}}))
		got, err := s.GateDecisions(ctx, r.ID, 0)
		must(t, err)
		want(t, "decisions", len(got), 1)
		want(t, "decision", got[0], decisions[0])
		want(t, "before the end", look(t, s, pipeline).RunID, up.ID)

		a := start(t, s, own.ID, "one")
		must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Success, TaskStatus: store.Success, Consume: true}))
		want(t, "used by the task", look(t, s, task).RunID, int64(0))
		want(t, "not by the run", look(t, s, pipeline).RunID, up.ID)
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester, Consume: true}))
		want(t, "used by the run", look(t, s, pipeline).RunID, int64(0))

		// The dependent is repaired: it uses the same run, which is used up already.
		must(t, s.ReopenRun(ctx, store.Reopen{RunID: r.ID, Owner: "one", Actor: Tester, Reason: "repair"}))
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester, Consume: true}))
		want(t, "rows", Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION"), "2")

		// The upstream is repaired.
		must(t, s.ReopenRun(ctx, store.Reopen{RunID: up.ID, Owner: "one", Actor: Tester, Reason: "repair"}))
		must(t, s.EndRun(ctx, store.RunEnd{RunID: up.ID, Owner: "one", Status: store.Success, Actor: Tester}))
		u := look(t, s, pipeline)
		want(t, "repaired", u.RunID, up.ID)
		want(t, "revision", u.Revision, 2)
		pipeline.ConsumeRepairs = false
		want(t, "not for this dependency", look(t, s, pipeline).RunID, int64(0))
	})
}

func TestGateWaits(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales(), downstream(store.OnSuccess))
		w := store.GateWait{PipelineID: graph(t, s, "REPORT").Pipeline.ID}
		left, err := s.WaitForGate(ctx, w, time.Second, time.Hour)
		must(t, err)
		want(t, "left", left.Round(time.Minute), time.Hour)
		left, err = s.WaitForGate(ctx, w, time.Second, time.Minute) // the first deadline holds
		must(t, err)
		want(t, "left", left.Round(time.Minute), time.Hour)
		waits, err := s.GateWaits(ctx, w.PipelineID)
		must(t, err)
		want(t, "waits", len(waits), 1)
		want(t, "until", waits[0].Until.Sub(waits[0].Since).Round(time.Second), time.Hour)
		must(t, s.EndGateWait(ctx, w))
		must(t, s.EndGateWait(ctx, w))
		waits, err = s.GateWaits(ctx, w.PipelineID)
		must(t, err)
		want(t, "waits", len(waits), 0)
		left, err = s.WaitForGate(ctx, w, -2*time.Minute, -time.Minute) // ran out while nobody looked
		must(t, err)
		want(t, "over", left < 0, true)
		left, err = s.WaitForGate(ctx, w, time.Second, time.Hour)
		must(t, err)
		want(t, "anew", left.Round(time.Minute), time.Hour)
		run, err := s.AdmitRun(ctx, newRun(w.PipelineID, "1"))
		must(t, err)
		w.RunID = run.ID
		_, err = s.WaitForGate(ctx, w, time.Second, time.Hour)
		must(t, err)
		must(t, s.EndRun(ctx, store.RunEnd{RunID: run.ID, Owner: "one", Status: store.Cancelled, Actor: Tester}))
		_, err = s.WaitForGate(ctx, w, time.Second, time.Hour)
		wantCode(t, err, fault.RunEnded)
	})
}
