package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/engine/store/postgres"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// twin is another empty Engine DB on the same server.
func (e *Engine) twin() *Engine {
	if e.path != "" {
		return SQLite(e.t)
	}
	return inSchema(e.t, postgres.Config{Address: e.config.Address, DirectAddress: e.config.DirectAddress})
}

// purgeAll purges what ended before a time, few runs and rows at once, and returns how many runs stay for which reason.
func purgeAll(s *store.Store, before time.Time) (store.Purged, map[string]int, error) {
	rows, kept := store.Purged{}, map[string]int{}
	pipelines, err := s.AllPipelines(ctx)
	if err != nil {
		return nil, nil, err
	}
	const few = 3
	for _, id := range pipelines {
		for after := int64(0); ; {
			page, err := s.OldRuns(ctx, id, before, after, few)
			if err != nil {
				return nil, nil, err
			}
			var batch []int64
			for _, r := range page {
				after = r.ID
				if r.Kept != "" {
					kept[r.Kept]++
					continue
				}
				batch = append(batch, r.ID)
			}
			_, purged, err := s.PurgeRuns(ctx, id, before, batch, everyLog)
			if err != nil {
				return nil, nil, err
			}
			rows.Add(purged)
			if len(page) < few {
				break
			}
		}
	}
	for _, table := range store.LooseTables {
		for after := int64(0); ; {
			ids, next, err := s.OldRows(ctx, table, 0, before, after, few, nil)
			if err != nil {
				return nil, nil, err
			}
			n, err := s.PurgeRows(ctx, table, ids)
			if err != nil {
				return nil, nil, err
			}
			rows[table] += n
			if after = next; next == 0 {
				break
			}
		}
	}
	return rows, kept, nil
}

func mustPurge(t *testing.T, s *store.Store, before time.Time) (store.Purged, map[string]int) {
	t.Helper()
	rows, kept, err := purgeAll(s, before)
	must(t, err)
	return rows, kept
}

// now is a moment with nothing in its own thousandth of a second, which is as fine as SQLite's clock is.
func now(t *testing.T, s *store.Store) time.Time {
	t.Helper()
	time.Sleep(2 * time.Millisecond)
	at, err := s.Now(ctx)
	must(t, err)
	time.Sleep(2 * time.Millisecond)
	return at
}

func rowsIn(t *testing.T, s *store.Store, table string) string {
	t.Helper()
	return Value(t, s, "SELECT COUNT(*) FROM {{schema}}."+table)
}

// TestPurgedRunsGoWhole: with everything that belongs to them, and nothing of it stays in any table.
func TestPurgedRunsGoWhole(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		s.Subscribe("dev", store.Subscriptions{"hook": {store.Success, store.Failed}})
		apply(t, s, sales(), downstream(store.OnSuccess))
		old := upstreamRun(t, s, "1", store.TriggerManual, store.Success, 1)
		pipeline, task := gatesOf(t, s)
		report := graph(t, s, "REPORT").Pipeline.ID
		n := newRun(report, "1")
		n.Reason, n.Gates = "because", []store.GateDecision{{PipelineEdgeID: pipeline.PipelineEdgeID, RunID: old.ID, Revision: 1, Result: store.GateSatisfied}}
		dependent, err := s.AdmitRun(ctx, n)
		must(t, err)
		show := tasks(t, s, dependent.ID)[0]
		must(t, s.RecordGates(ctx, Tester, report, dependent.ID, show.ID, []store.GateDecision{
			{TaskEdgeID: task.TaskEdgeID, RunID: old.ID, TaskRunID: tasks(t, s, old.ID)[0].ID, Revision: 1, Result: store.GateSatisfied}}))
		wait := store.GateWait{PipelineID: report, RunID: dependent.ID, TaskID: show.TaskID}
		_, err = s.WaitForGate(ctx, wait, time.Second, time.Minute)
		must(t, err)
		must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: start(t, s, show.ID, "one").ID, Owner: "one", Status: store.Success, TaskStatus: store.Success, Consume: true}))
		must(t, s.EndRun(ctx, store.RunEnd{RunID: dependent.ID, Owner: "one", Status: store.Success, Actor: Tester, Consume: true}))
		must(t, s.RecordGates(ctx, Tester, report, 0, 0, []store.GateDecision{{PipelineEdgeID: pipeline.PipelineEdgeID, Result: store.GateUnsatisfied}}))
		must(t, s.PausePipeline(ctx, report, "r", Tester))
		_, err = s.ResumePipeline(ctx, report, "", Tester)
		must(t, err)
		action, err := s.BeginAction(ctx, store.ActionRecord{Actor: Tester, Host: "h", Command: "run", Arguments: "{}"})
		must(t, err)
		must(t, s.EndAction(ctx, action, "DONE", 0))
		_, err = s.BeginAction(ctx, store.ActionRecord{Actor: Tester, Host: "h", Command: "runs still", Arguments: "{}"})
		must(t, err)
		before := now(t, s)

		rows, kept := mustPurge(t, s, before)
		want(t, "newest ones stay", fmt.Sprint(kept), "map[NEWEST:2]")
		want(t, "runs", rows[store.TableRuns], int64(0))
		want(t, "commands", rowsIn(t, s, store.TableActions), "1")
		want(t, "pauses", rowsIn(t, s, store.TablePauses), "0")
		want(t, "decisions without a run", rows[store.TableDecisions], int64(1))
		want(t, "consumption", rowsIn(t, s, store.TableConsumption), "2")

		upstreamRun(t, s, "2", store.TriggerManual, store.Failed, 0)
		r, err := s.AdmitRun(ctx, newRun(report, "2"))
		must(t, err)
		rows, kept = mustPurge(t, s, before)
		want(t, "nobody needs them any more", fmt.Sprint(kept), "map[]")
		if diff := cmp.Diff(store.Purged{store.TableRuns: 2, store.TableTaskRuns: 3, store.TableAttempts: 2, store.TableDecisions: 2, store.TableGateWaits: 1,
			store.TableInterventions: 1, store.TableNotifications: 2, store.TableConsumption: 0, store.TablePauses: 0, store.TableActions: 0}, rows); diff != "" {
			t.Fatal(diff)
		}
		want(t, "task runs that stay", rowsIn(t, s, store.TableTaskRuns), "3")
		want(t, "what was used up stays, though its run is gone", look(t, s, pipeline).Used, old.ID)
		want(t, "attempts in the run that goes on", len(attempts(t, s, tasks(t, s, r.ID)[0].ID)), 0)
		if e.path != "" {
			want(t, "broken references", rowsIn(t, s, "pragma_foreign_key_check"), "0")
			want(t, "purposes left", rowsIn(t, s, "ENGINE_SESSION"), "0")
		}
		if _, err := TryExec(s, "DELETE FROM {{schema}}.AUD_ACTIONS"); err == nil {
			t.Fatal("the purpose of retention outlived its transaction")
		}
	})
}

// TestPurgeFreesNoID: not even when nothing is left.
func TestPurgeFreesNoID(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := ended(t, s)
		highest := list[len(list)-1].ID
		// The newest run of a pipeline always stays, so that all go only by hand.
		for _, statement := range []string{"DELETE FROM {{schema}}.AUD_TASK_ATTEMPTS", "DELETE FROM {{schema}}.AUD_TASK_RUN_LOG", "DELETE FROM {{schema}}.AUD_PIPELINES_RUN_LOG"} {
			Exec(t, s, statement)
		}
		next, err := e.Store().AdmitRun(ctx, newRun(r.PipelineID, "again"))
		must(t, err)
		if next.ID <= r.ID || tasks(t, s, next.ID)[0].ID <= highest {
			t.Fatalf("run %d after %d, task run %d after %d", next.ID, r.ID, tasks(t, s, next.ID)[0].ID, highest)
		}
		other := upstreamRunIn(t, s, "OTHER")
		newer := upstreamRunIn(t, s, "OTHER")
		mustPurge(t, s, now(t, s))
		if gone, err := s.RunByID(ctx, other.ID); gone != nil || err != nil {
			t.Fatalf("the old run is there: %v", err)
		}
		if after := upstreamRunIn(t, e.Store(), "OTHER"); after.ID <= newer.ID {
			t.Fatalf("run %d after %d", after.ID, newer.ID)
		}
	})
}

// upstreamRunIn makes a run of a pipeline without tasks, and ends it.
func upstreamRunIn(t *testing.T, s *store.Store, code string) *store.Run {
	t.Helper()
	apply(t, s, store.DesiredPipeline{Code: code, Name: code, RefreshType: "FULL"})
	r, err := s.AdmitRun(ctx, newRun(graph(t, s, code).Pipeline.ID, fmt.Sprint(time.Now().UnixNano())))
	must(t, err)
	must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
	return r
}

// TestPurgeKeepsTwoHundredForGates: a run that 200 newer ones hide from gates goes, and hides no less by what goes.
func TestPurgeKeepsTwoHundredForGates(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales(), downstream(store.OnFailure))
		gate, _ := gatesOf(t, s)
		first := upstreamRun(t, s, "first", store.TriggerManual, store.Failed, 0)
		hidden := upstreamRun(t, s, "hidden", store.TriggerManual, store.Failed, 0)
		seen := upstreamRun(t, s, "seen", store.TriggerManual, store.Failed, 0)
		pipelineID := seen.PipelineID
		Exec(t, s, `
			INSERT INTO {{schema}}.AUD_PIPELINES_RUN_LOG (PIPELINE_ID, RUN_KEY, RUN_DATE, STATUS, END_DATE, STARTED_BY, STARTED_BY_KIND)
			WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 199)
			SELECT (SELECT MAX(PIPELINE_ID) FROM {{schema}}.AUD_PIPELINES_RUN_LOG), 'k' || n, RUN_DATE, 'SUCCESS', END_DATE, 'x', 'SYSTEM'
			FROM numbers CROSS JOIN (SELECT RUN_DATE, END_DATE FROM {{schema}}.AUD_PIPELINES_RUN_LOG WHERE RUN_KEY = 'seen') s ORDER BY n`)
		want(t, "before", look(t, s, gate).RunID, seen.ID)
		_, kept := mustPurge(t, s, now(t, s))
		want(t, "kept", fmt.Sprint(kept), "map[GATE:1 NEWEST:1]")
		want(t, "after", look(t, s, gate).RunID, seen.ID)
		for _, id := range []int64{first.ID, hidden.ID} {
			if r, err := s.RunByID(ctx, id); r != nil || err != nil {
				t.Fatal("a hidden run is there", err)
			}
		}
		want(t, "runs", Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_PIPELINES_RUN_LOG WHERE PIPELINE_ID = $1", pipelineID), "2")
	})
}

// TestPurgeLeavesWhatSomebodyChanges: a run that was reopened since it was looked at, or whose task has not ended.
func TestPurgeLeavesWhatSomebodyChanges(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		reopened := upstreamRun(t, s, "1", store.TriggerManual, store.Failed, 0)
		id := reopened.PipelineID
		cancelled, err := s.AdmitRun(ctx, newRun(id, "2"))
		must(t, err)
		live := start(t, s, tasks(t, s, cancelled.ID)[0].ID, "one")
		must(t, s.CancelRun(ctx, cancelled.ID, "r", Tester))
		gone := upstreamRun(t, s, "3", store.TriggerManual, store.Failed, 0)
		upstreamRun(t, s, "4", store.TriggerManual, store.Success, 0)
		before := now(t, s)
		list, err := s.OldRuns(ctx, id, before, 0, 10)
		must(t, err)
		var text []string
		for _, r := range list {
			text = append(text, r.Kept)
		}
		want(t, "kept", strings.Join(text, ","), ",RUNNING,,NEWEST")

		must(t, s.ReopenRun(ctx, store.Reopen{RunID: reopened.ID, Owner: "one", Actor: Tester, Reason: "r"}))
		purged, _, err := s.PurgeRuns(ctx, id, before, []int64{reopened.ID, cancelled.ID, gone.ID}, everyLog)
		must(t, err)
		want(t, "purged", fmt.Sprint(purged), fmt.Sprint([]int64{gone.ID}))
		want(t, "the reopened run has its tasks", len(tasks(t, s, reopened.ID)), 2)
		must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: live.ID, Owner: "one", Status: store.Cancelled, TaskStatus: store.Cancelled}))
		purged, _, err = s.PurgeRuns(ctx, id, before, []int64{cancelled.ID}, everyLog)
		must(t, err)
		want(t, "purged", len(purged), 1)
	})
}

// TestPurgeBesideRuns: runs are admitted, run, ended and reopened while two purges delete all that may go.
func TestPurgeBesideRuns(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		d := downstream(store.OnSuccess)
		d.Tasks[0].DependsOn = nil
		apply(t, s, sales(), d)
		edge := graph(t, s, "REPORT").DependsOn[0]
		pipeline := store.Gate{PipelineEdgeID: edge.ID, UpstreamPipelineID: edge.PipelineID, Type: edge.Type, ConsumeRepairs: true}
		stop := make(chan struct{})
		var purges sync.WaitGroup
		for range 2 {
			other := e.Store()
			purges.Go(func() {
				for {
					at, err := other.Now(ctx)
					if err == nil {
						_, _, err = purgeAll(other, at)
					}
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		report := graph(t, s, "REPORT").Pipeline.ID
		for i := range 15 {
			up := upstreamRun(t, s, fmt.Sprint(i), store.TriggerManual, store.Success, 1)
			if i%5 == 0 { // it is the newest, so it is there
				must(t, s.RunAgain(ctx, store.Again{RunID: up.ID, Owner: "one", Actor: Tester, Reason: "r", All: true}))
				for _, task := range tasks(t, s, up.ID) {
					finish(t, s, start(t, s, task.ID, "one"), store.Success)
				}
				must(t, s.EndRun(ctx, store.RunEnd{RunID: up.ID, Owner: "one", Status: store.Success, Actor: Tester}))
			}
			u := look(t, s, pipeline)
			want(t, "the gate chooses the newest", u.RunID, up.ID)
			n := newRun(report, fmt.Sprint(i))
			n.Gates = []store.GateDecision{{PipelineEdgeID: pipeline.PipelineEdgeID, RunID: u.RunID, Revision: u.Revision, Result: store.GateSatisfied}}
			d, err := s.AdmitRun(ctx, n)
			must(t, err)
			finish(t, s, start(t, s, tasks(t, s, d.ID)[0].ID, "one"), store.Success)
			must(t, s.EndRun(ctx, store.RunEnd{RunID: d.ID, Owner: "one", Status: store.Success, Actor: Tester, Consume: true}))
			want(t, "and no run twice", look(t, s, pipeline), store.Upstream{Used: up.ID})
		}
		close(stop)
		purges.Wait()
		mustPurge(t, s, now(t, s))
		want(t, "what stays", rowsIn(t, s, store.TableRuns)+" "+rowsIn(t, s, store.TableTaskRuns), "2 3")
	})
}

// TestPurgeChangesNoAnswer: two Engine DBs live through the same random history; one of them is purged at random moments. What
// gates, resumes, reruns, backfills and readers see is the same in both, then and afterwards.
func TestPurgeChangesNoAnswer(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		histories := 5
		if e.path == "" {
			histories = 1
		}
		for seed := range uint64(histories) {
			rng := rand.New(rand.NewPCG(seed, 5))
			h := &history{t: t, rng: rng}
			for range 2 {
				s := e.twin().Migrated().Store()
				must(t, s.RaiseIDs(ctx, 5_000_000_000))
				h.both = append(h.both, s)
			}
			h.apply()
			h.live(40)
			moments := []time.Time{now(t, h.both[0])}
			var purged int64
			for range 5 {
				h.live(rng.IntN(20))
				before := moments[rng.IntN(len(moments))]
				rows, _ := mustPurge(t, h.both[0], before)
				purged += rows[store.TableRuns]
				h.compare(fmt.Sprintf("history %d, after a purge", seed))
				h.live(rng.IntN(12))
				h.compare(fmt.Sprintf("history %d, later", seed))
				moments = append(moments, now(t, h.both[0]))
			}
			mustPurge(t, h.both[0], now(t, h.both[0]))
			h.compare(fmt.Sprintf("history %d, after the purge of everything", seed))
			if purged == 0 {
				t.Errorf("history %d: nothing was purged", seed)
			}
		}
	})
}

// history is what happens to two Engine DBs in the same way. The first one may be purged.
type history struct {
	t      *testing.T
	rng    *rand.Rand
	both   []*store.Store
	n      int
	series string // the newest backfill
	day    int
}

var edgeTypes = []string{store.OnSuccess, store.OnFailure, store.OnAlways, store.OnHasData}

func (h *history) apply() {
	report := store.DesiredPipeline{Code: "REPORT", Name: "Report", RefreshType: "FULL", Tasks: []store.DesiredTask{{Code: "show", Type: "ETL", Handler: "SQL"}}}
	for _, on := range edgeTypes {
		if h.rng.IntN(2) == 0 {
			report.DependsOn = append(report.DependsOn, store.DesiredPipelineEdge{Pipeline: "SALES", Type: on, Match: h.match(), ConsumeRepairs: h.rng.IntN(3) > 0})
		}
		if h.rng.IntN(2) == 0 {
			report.Tasks[0].DependsOn = append(report.Tasks[0].DependsOn, store.DesiredTaskEdge{
				Pipeline: "SALES", Task: []string{"extract", "load"}[h.rng.IntN(2)], Type: on, Match: h.match(), ConsumeRepairs: h.rng.IntN(3) > 0})
		}
	}
	for _, s := range h.both {
		apply(h.t, s, sales(), report)
	}
}

func (h *history) match() string {
	return []string{store.MatchNewest, store.MatchSameDate}[h.rng.IntN(2)]
}

// same does something to both and wants the same error, by its code.
func (h *history) same(do func(s *store.Store) error) bool {
	h.t.Helper()
	var codes []fault.Code
	for _, s := range h.both {
		err := do(s)
		var known *fault.Error
		if err != nil && !errors.As(err, &known) {
			h.t.Fatal(err)
		}
		code := fault.Code("")
		if err != nil {
			code = known.Code
		}
		codes = append(codes, code)
	}
	if codes[0] != codes[1] {
		h.t.Fatalf("%q with the purge, %q without", codes[0], codes[1])
	}
	return codes[0] == ""
}

func (h *history) date() string { return fmt.Sprintf("2026-09-%02d", 1+h.rng.IntN(4)) }

// anyRun is a run that is in both, 0 when there is none.
func (h *history) anyRun(pipelineID int64) int64 {
	runs, err := h.both[0].History(ctx, pipelineID, 1000)
	must(h.t, err)
	if len(runs) == 0 {
		return 0
	}
	return runs[h.rng.IntN(len(runs))].ID
}

func (h *history) live(steps int) {
	sales, report := graph(h.t, h.both[0], "SALES"), graph(h.t, h.both[0], "REPORT")
	for range steps {
		switch pick := h.rng.IntN(20); {
		case pick < 7:
			h.run(sales, store.TriggerManual, h.key(), h.date(), nil)
		case pick < 12:
			h.dependent(report)
		case pick < 14:
			h.again(h.anyRun(sales.Pipeline.ID))
		case pick < 15:
			h.again(h.anyRun(report.Pipeline.ID))
		case pick < 16:
			m := store.RunMark{RunID: h.anyRun(sales.Pipeline.ID), Status: []string{store.Success, store.Failed, store.Skipped}[h.rng.IntN(3)], Reason: "r", Actor: Tester}
			h.same(func(s *store.Store) error { return s.MarkRun(ctx, m) })
		case pick < 17:
			i := store.StandIn{PipelineID: sales.Pipeline.ID, Key: h.key(), Date: h.date(), Status: store.Success, Reason: "r", Actor: Tester}
			h.same(func(s *store.Store) error { _, err := s.AddStandIn(ctx, i); return err })
		case pick < 18:
			h.same(func(s *store.Store) error {
				_, err := s.ResumePipeline(ctx, sales.Pipeline.ID, "", Tester)
				return err
			})
		default:
			h.backfill(sales)
		}
	}
}

func (h *history) key() string { h.n++; return fmt.Sprintf("manual:%d", h.n) }

// backfill makes the next day of the newest backfill, or begins another one.
func (h *history) backfill(g *store.Graph) {
	if h.day++; h.series == "" || h.day > 5 || h.rng.IntN(4) == 0 {
		h.n++
		h.series, h.day = fmt.Sprintf("00000000-0000-4000-8000-%012d", h.n), 1
	}
	date := fmt.Sprintf("2026-08-%02d", h.day)
	h.run(g, store.TriggerBackfill, "backfill:"+date+":2026-08-05:"+h.series, date, nil)
}

// dependent asks the gates of REPORT and of its task as the engine does, and runs it when they hold.
func (h *history) dependent(g *store.Graph) {
	date := h.date()
	var decided []store.GateDecision
	for _, e := range g.DependsOn {
		gate := store.Gate{PipelineEdgeID: e.ID, UpstreamPipelineID: e.PipelineID, Type: e.Type, Date: dateOf(e.Match, date), ConsumeRepairs: e.ConsumeRepairs}
		u := h.look(gate)
		if u.RunID != 0 {
			decided = append(decided, store.GateDecision{PipelineEdgeID: e.ID, RunID: u.RunID, Revision: u.Revision, Result: store.GateSatisfied})
		}
	}
	h.run(g, store.TriggerManual, h.key(), date, decided)
}

func dateOf(match, date string) string {
	if match == store.MatchSameDate {
		return date
	}
	return ""
}

func (h *history) look(g store.Gate) store.Upstream {
	h.t.Helper()
	with, without := look(h.t, h.both[0], g), look(h.t, h.both[1], g)
	if with != without {
		h.t.Fatalf("gate %+v chooses %+v with the purge, %+v without", g, with, without)
	}
	return with
}

// run admits a run and ends it in some way, or leaves it; an unfinished one is finished first.
func (h *history) run(g *store.Graph, trigger, key, date string, gates []store.GateDecision) {
	unfinished, err := h.both[0].UnfinishedRun(ctx, g.Pipeline.ID)
	must(h.t, err)
	if unfinished != nil {
		h.finish(unfinished.ID)
		return
	}
	n := store.NewRun{PipelineID: g.Pipeline.ID, Key: key, Date: date, Trigger: trigger, OwnerID: "one", Actor: Tester, Gates: gates}
	var ids []int64
	if h.same(func(s *store.Store) error {
		r, err := s.AdmitRun(ctx, n)
		if err == nil {
			ids = append(ids, r.ID)
		}
		return err
	}) {
		want(h.t, "id of the new run, with the purge and without", ids[0], ids[1])
		h.finish(ids[0])
	}
}

func (h *history) again(id int64) {
	if h.same(func(s *store.Store) error {
		return s.RunAgain(ctx, store.Again{RunID: id, Owner: "one", Actor: Tester, Reason: "r", All: true})
	}) {
		h.finish(id)
	}
}

// finish runs the open tasks of an unfinished run and ends it, now and then not.
func (h *history) finish(id int64) {
	if h.rng.IntN(12) == 0 {
		return
	}
	seed := h.rng.Uint64()
	status := ""
	h.same(func(s *store.Store) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		status = store.Success
		for _, task := range tasks(h.t, s, id) {
			if task.Status != store.Pending {
				continue
			}
			h.gatesOfTask(s, rng, id, task)
			a := start(h.t, s, task.ID, "one")
			written := int64(rng.IntN(2))
			o := store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Success, TaskStatus: store.Success, Consume: true, TaskCounts: store.Counts{Written: &written}}
			if rng.IntN(4) == 0 {
				o.Status, o.TaskStatus, status = store.Failed, store.Failed, store.Failed
			}
			must(h.t, s.FinishAttempt(ctx, o))
		}
		if rng.IntN(10) == 0 {
			status = store.Cancelled
		}
		return s.EndRun(ctx, store.RunEnd{RunID: id, Owner: "one", Status: status, Actor: Tester, Consume: true})
	})
}

func (h *history) gatesOfTask(s *store.Store, rng *rand.Rand, runID int64, task store.TaskRun) {
	if task.TaskCode != "show" {
		return
	}
	g := graph(h.t, s, "REPORT")
	date := run(h.t, s, runID).Date
	var decided []store.GateDecision
	for _, e := range g.Tasks[0].DependsOn {
		u := look(h.t, s, store.Gate{TaskEdgeID: e.ID, UpstreamPipelineID: e.PipelineID, UpstreamTaskID: e.TaskID, Type: e.Type,
			Date: dateOf(e.Match, date), ConsumeRepairs: e.ConsumeRepairs})
		if u.RunID != 0 && rng.IntN(3) > 0 {
			decided = append(decided, store.GateDecision{TaskEdgeID: e.ID, RunID: u.RunID, TaskRunID: u.TaskRunID, Revision: u.Revision, Result: store.GateSatisfied})
		}
	}
	must(h.t, s.RecordGates(ctx, Tester, g.Pipeline.ID, runID, task.ID, decided))
}

// compare asks both all that the engine asks.
func (h *history) compare(when string) {
	h.t.Helper()
	with, without := h.answers(h.both[0], nil), h.answers(h.both[1], h.there())
	if diff := cmp.Diff(without, with); diff != "" {
		h.t.Fatalf("%s (- without, + with): %s", when, diff)
	}
}

// there are the runs that have not been purged.
func (h *history) there() map[int64]bool {
	there := map[int64]bool{}
	for _, code := range []string{"SALES", "REPORT"} {
		runs, err := h.both[0].History(ctx, graph(h.t, h.both[0], code).Pipeline.ID, 1000)
		must(h.t, err)
		for _, r := range runs {
			there[r.ID] = true
		}
	}
	return there
}

// answers are what is read of an Engine DB: of the runs that are there, nil for all, and by the pipelines' gates.
func (h *history) answers(s *store.Store, there map[int64]bool) []string {
	t := h.t
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, code := range []string{"SALES", "REPORT"} {
		g := graph(t, s, code)
		for name, read := range map[string]func(context.Context, int64) (*store.Run, error){"unfinished": s.UnfinishedRun, "newest": s.NewestRun} {
			r, err := read(ctx, g.Pipeline.ID)
			must(t, err)
			if r != nil {
				say("%s %s run is %d", code, name, r.ID)
			}
		}
		backfills, err := s.Backfills(ctx, g.Pipeline.ID, 732)
		must(t, err)
		for i, r := range backfills {
			if strings.HasSuffix(r.Key, backfills[0].Key[len(backfills[0].Key)-12:]) {
				say("%s backfill %d %s %s", code, i, r.Key, r.Status)
			}
		}
		runs, err := s.History(ctx, g.Pipeline.ID, 1000)
		must(t, err)
		for _, r := range runs {
			if there != nil && !there[r.ID] {
				continue
			}
			say("run %d %s %s %s revision %d repair %v", r.ID, r.Key, r.Date, r.Status, r.OutputRevision, r.RepairPending)
			for _, task := range tasks(t, s, r.ID) {
				decisions, err := s.GateDecisions(ctx, r.ID, task.ID)
				must(t, err)
				consumed, err := s.HasConsumed(ctx, r.ID, task.TaskID)
				must(t, err)
				say("  task run %d %s %s attempts %d decided %+v consumed %v", task.ID, task.TaskCode, task.Status, len(attempts(t, s, task.ID)), decisions, consumed)
			}
			decisions, err := s.GateDecisions(ctx, r.ID, 0)
			must(t, err)
			signal, err := s.Signal(ctx, r.ID)
			must(t, err)
			say("  decided %+v, intervention %v", decisions, signal.Intervention > 0)
		}
		for _, date := range []string{"2026-09-01", "2026-09-02", "2026-09-03", "2026-09-04"} {
			for _, e := range g.DependsOn {
				say("%s on %s %s: %+v", date, e.Type, e.Match, look(t, s, store.Gate{PipelineEdgeID: e.ID, UpstreamPipelineID: e.PipelineID, Type: e.Type,
					Date: dateOf(e.Match, date), ConsumeRepairs: e.ConsumeRepairs}))
			}
			for _, task := range g.Tasks {
				for _, e := range task.DependsOn {
					if e.PipelineID == g.Pipeline.ID {
						continue
					}
					say("%s on %s.%s %s: %+v", date, e.TaskCode, e.Type, e.Match, look(t, s, store.Gate{TaskEdgeID: e.ID, UpstreamPipelineID: e.PipelineID,
						UpstreamTaskID: e.TaskID, Type: e.Type, Date: dateOf(e.Match, date), ConsumeRepairs: e.ConsumeRepairs}))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// everyLog can be removed.
func everyLog(int64, []string) bool { return true }

// TestPurgeSparesRunsWithLogs: of a run that stays, whatever the reason, no log is removed, and a run whose log cannot be
// removed stays.
func TestPurgeSparesRunsWithLogs(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		var old []int64
		for i := range 4 {
			if i == 0 {
				apply(t, s, sales())
			}
			r, err := s.AdmitRun(ctx, newRun(graph(t, s, "SALES").Pipeline.ID, "manual:"+idText(int64(i))))
			must(t, err)
			list := tasks(t, s, r.ID)
			for _, task := range list {
				finish(t, s, start(t, s, task.ID, "one"), store.Success)
			}
			must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
			old = append(old, r.ID)
		}
		Exec(t, s, `UPDATE {{schema}}.AUD_PIPELINES_RUN_LOG SET START_DATE = '2020-01-01T00:00:00.000000Z', END_DATE = '2020-01-01T00:00:00.000000Z'`)
		id := graph(t, s, "SALES").Pipeline.ID
		asked := map[int64]int{}
		gone, _, err := s.PurgeRuns(ctx, id, time.Now(), old, func(run int64, logs []string) bool {
			asked[run] = len(logs)
			return run != old[1]
		})
		must(t, err)
		want(t, "gone", len(gone) == 2 && gone[0] == old[0] && gone[1] == old[2], true)
		want(t, "asked", len(asked), 3) // not of the newest
		want(t, "logs", asked[old[0]], 2)
		want(t, "left", Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_PIPELINES_RUN_LOG"), "2")
	})
}
