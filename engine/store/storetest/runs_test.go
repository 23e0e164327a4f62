package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestAdmission(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		want(t, "status", r.Status, store.InProgress)
		want(t, "date", r.Date, "2026-09-01")
		want(t, "owner", r.OwnerID, "one")
		want(t, "pipeline", r.PipelineCode, "SALES")
		want(t, "started by", r.StartedBy, Tester)
		want(t, "expired", r.LeaseExpired, false)
		now, err := s.Now(ctx)
		must(t, err)
		if age := now.Sub(r.StartedAt); age < 0 || age > time.Minute {
			t.Fatalf("started at %s, now %s", r.StartedAt, now)
		}
		// Ids continue from the seconds since 2025.
		seconds := int64(now.Sub(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds())
		for _, id := range []int64{r.ID, list[0].ID} {
			if id > seconds+10 || id < seconds-600 {
				t.Fatalf("id %d, seconds %d", id, seconds)
			}
		}
		want(t, "tasks", len(list), 2)
		want(t, "first", list[0].TaskCode+" "+list[0].Status+" "+list[0].Action+" "+list[0].TargetName,
			"extract PENDING APPEND_TABLE staging.orders")

		_, err = s.AdmitRun(ctx, newRun(r.PipelineID, "manual:2"))
		wantCode(t, err, fault.RunActive)
		if !strings.Contains(err.Error(), idText(r.ID)) {
			t.Fatalf("the run in the way is not named: %v", err)
		}
		want(t, "refused admission leaves tasks", Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_TASK_RUN_LOG"), "2")
	})
}

func TestRunLookups(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		for name, read := range map[string]func() (*store.Run, error){
			"by id":      func() (*store.Run, error) { return s.RunByID(ctx, r.ID) },
			"by key":     func() (*store.Run, error) { return s.RunByKey(ctx, r.PipelineID, "manual:1") },
			"unfinished": func() (*store.Run, error) { return s.UnfinishedRun(ctx, r.PipelineID) },
			"newest":     func() (*store.Run, error) { return s.NewestRun(ctx, r.PipelineID) },
		} {
			got, err := read()
			must(t, err)
			if got == nil || got.ID != r.ID {
				t.Fatalf("%s: %v", name, got)
			}
		}
		for _, task := range list {
			finish(t, s, start(t, s, task.ID, "one"), store.Success)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
		second, err := s.AdmitRun(ctx, newRun(r.PipelineID, "manual:2"))
		must(t, err)
		history, err := s.History(ctx, r.PipelineID, 10)
		must(t, err)
		want(t, "runs", len(history), 2)
		want(t, "newest first", history[0].ID, second.ID)
		pipelines, err := s.ListPipelines(ctx)
		must(t, err)
		want(t, "newest of the list", pipelines[0].LastRun.ID, second.ID)

		_, err = s.AdmitRun(ctx, newRun(r.PipelineID, "manual:1"))
		wantCode(t, err, fault.RunActive)
		none, err := s.RunByKey(ctx, r.PipelineID, "other")
		if none != nil || err != nil {
			t.Fatal(none, err)
		}
	})
}

// TestAdmissionAsSeen: a run is admitted only if no other was started since its caller has looked.
func TestAdmissionAsSeen(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		seen := int64(0)
		first := newRun(graph(t, s, "SALES").Pipeline.ID, "first")
		first.Newest = &seen
		r, err := s.AdmitRun(ctx, first)
		must(t, err)
		must(t, s.CancelRun(ctx, r.ID, "test", Tester))

		second := newRun(r.PipelineID, "second")
		second.Newest = &seen
		_, err = s.AdmitRun(ctx, second)
		wantCode(t, err, fault.RunActive)
		if !strings.Contains(err.Error(), idText(r.ID)) {
			t.Fatalf("the run in the way is not named: %v", err)
		}
		want(t, "runs", Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_PIPELINES_RUN_LOG"), "1")
		seen = r.ID
		_, err = s.AdmitRun(ctx, second)
		must(t, err)
	})
}

func TestTwoOwnersRaceForARun(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		owners := []string{"two", "three"}
		errs := make([]error, len(owners))
		var ready, done sync.WaitGroup
		ready.Add(len(owners))
		for i, owner := range owners {
			other := e.Store()
			done.Add(1)
			go func() {
				defer done.Done()
				ready.Done()
				ready.Wait()
				errs[i] = other.ClaimRun(ctx, r.ID, owner, "one")
			}()
		}
		done.Wait()
		winner := run(t, s, r.ID).OwnerID
		for i, err := range errs {
			if owners[i] == winner {
				must(t, err)
				continue
			}
			wantCode(t, err, fault.RunOwned)
		}
		wantCode(t, s.ReleaseRun(ctx, r.ID, "one"), fault.RunOwned)
		must(t, s.ReleaseRun(ctx, r.ID, winner))
		want(t, "owner after release", run(t, s, r.ID).OwnerID, "")
		must(t, s.ClaimRun(ctx, r.ID, "four", ""))
		wantCode(t, s.ClaimRun(ctx, 5, "four", ""), fault.RunNotFound)
	})
}

func TestLeases(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		a := start(t, s, list[0].ID, "one")
		must(t, s.Heartbeat(ctx, "one", -time.Second))
		want(t, "run expired", run(t, s, r.ID).LeaseExpired, true)
		want(t, "attempt expired", attempts(t, s, list[0].ID)[0].LeaseExpired, true)
		must(t, s.Heartbeat(ctx, "two", time.Minute))
		want(t, "another's heartbeat", run(t, s, r.ID).LeaseExpired, true)
		must(t, s.Heartbeat(ctx, "one", time.Minute))
		want(t, "run extended", run(t, s, r.ID).LeaseExpired, false)
		want(t, "attempt extended", attempts(t, s, list[0].ID)[0].LeaseExpired, false)
		finish(t, s, a, store.Success)
		must(t, s.Heartbeat(ctx, "one", -time.Second))
		want(t, "ended attempts have no lease", attempts(t, s, list[0].ID)[0].LeaseExpired, false)
	})
}

func TestEndReopenAndRevision(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		end := store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester}
		wantCode(t, s.EndRun(ctx, end), fault.RunUnfinished)

		failed := start(t, s, list[0].ID, "one")
		wantCode(t, s.EndRun(ctx, end), fault.RunUnfinished)
		finish(t, s, failed, store.Failed)
		must(t, s.SkipTasks(ctx, r.ID, store.Claim{}, []store.Skip{
			{TaskRunID: list[1].ID, Reason: store.SkipUpstream, Message: "extract failed"},
			{TaskRunID: list[0].ID, Reason: store.SkipUpstream, Message: "not PENDING, so it stays FAILED"},
		}))
		wantCode(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "two", Status: store.Failed, Actor: Tester}), fault.RunOwned)
		must(t, s.EndRun(ctx, end))
		wantCode(t, s.EndRun(ctx, end), fault.RunEnded)
		wantCode(t, s.ClaimRun(ctx, r.ID, "two", ""), fault.RunEnded)
		_, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, Owner: "one", Actor: Tester})
		wantCode(t, err, fault.RunEnded)

		ended := run(t, s, r.ID)
		want(t, "status", ended.Status, store.Failed)
		want(t, "owner", ended.OwnerID, "")
		want(t, "ended by", ended.EndedBy, Tester)
		want(t, "ended", ended.EndedAt != nil, true)

		must(t, s.ReopenRun(ctx, store.Reopen{RunID: r.ID, Owner: "two", Actor: Tester, Reason: "try again"}))
		wantCode(t, s.ReopenRun(ctx, store.Reopen{RunID: r.ID, Owner: "two", Actor: Tester, Reason: "again"}), fault.RunOwned)
		must(t, s.ResetTasks(ctx, r.ID, store.ResetFailed))
		for _, task := range tasks(t, s, r.ID) {
			want(t, task.TaskCode, task.Status+task.SkipReason+task.Error, store.Pending)
			finish(t, s, start(t, s, task.ID, "two"), store.Success)
		}
		want(t, "repair", run(t, s, r.ID).RepairPending, true)
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "two", Status: store.Success, Actor: Tester}))
		repaired := run(t, s, r.ID)
		want(t, "revision", repaired.OutputRevision, 2)
		want(t, "repaired", repaired.RepairPending, false)
		want(t, "intervention", Value(t, s,
			"SELECT ACTION || ' ' || FROM_STATUS || ' ' || TO_STATUS || ' ' || REASON || ' ' || REQUESTED_BY FROM {{schema}}.AUD_RUN_INTERVENTIONS"),
			"REOPEN FAILED IN_PROGRESS try again tester")
	})
}

func TestReopenMeetsAnotherRun(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Cancelled, Actor: Tester}))
		want(t, "tasks of a cancelled run", tasks(t, s, r.ID)[0].Status, store.Cancelled)
		wantCode(t, s.ReopenRun(ctx, store.Reopen{RunID: r.ID, Actor: Tester, Reason: "x"}), fault.RunEnded)

		second, err := s.AdmitRun(ctx, newRun(r.PipelineID, "manual:2"))
		must(t, err)
		for _, task := range tasks(t, s, second.ID) {
			finish(t, s, start(t, s, task.ID, "one"), store.Failed)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: second.ID, Owner: "one", Status: store.Failed, Actor: Tester}))
		third, err := s.AdmitRun(ctx, newRun(r.PipelineID, "manual:3"))
		must(t, err)
		err = s.ReopenRun(ctx, store.Reopen{RunID: second.ID, Actor: Tester, Reason: "x"})
		wantCode(t, err, fault.RunActive)
		if !strings.Contains(err.Error(), idText(third.ID)) {
			t.Fatalf("%v does not name run %d", err, third.ID)
		}
		want(t, "still", run(t, s, second.ID).Status, store.Failed)
	})
}

func TestSLA(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		for code, hours := range map[string]float64{"MET": 2.5, "BREACHED": 0.0000001} {
			p := sales()
			p.Code, p.SLAHours, p.Tasks = code, &hours, nil
			apply(t, s, p)
			r, err := s.AdmitRun(ctx, newRun(graph(t, s, code).Pipeline.ID, "k"))
			must(t, err)
			// Let the clock of either database move on.
			for {
				now, err := s.Now(ctx)
				must(t, err)
				if now.Sub(r.StartedAt) > 2*time.Millisecond {
					break
				}
			}
			must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
			want(t, "sla", run(t, s, r.ID).SLAStatus, code)
		}
	})
}

func TestSyncTasks(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		p := sales()
		p.Tasks = append(p.Tasks[:1], store.DesiredTask{Code: "report", Type: "ETL", Handler: "SQL"})
		apply(t, s, p)
		must(t, s.SyncTasks(ctx, r.ID))
		must(t, s.SyncTasks(ctx, r.ID))
		got := ""
		for _, task := range tasks(t, s, r.ID) {
			got += task.TaskCode + " " + task.Status + " " + task.SkipReason + "; "
		}
		want(t, "tasks", got, "extract PENDING ; load SKIPPED OPERATOR; report PENDING ; ")
	})
}

func TestActions(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		id, err := s.BeginAction(ctx, store.ActionRecord{Actor: Tester, Host: "h", Command: "run", Arguments: `{"pipeline":"SALES"}`, PipelineID: 4})
		must(t, err)
		must(t, s.EndAction(ctx, id, "FAILED", 1))
		if err := s.EndAction(ctx, id, "SUCCESS", 0); err == nil {
			t.Fatal("an outcome was recorded twice")
		}
		want(t, "action", Value(t, s, "SELECT COMMAND || ' ' || OUTCOME || ' ' || EXIT_CODE FROM {{schema}}.AUD_ACTIONS"), "run FAILED 1")
	})
}

func TestRaiseIDs(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		must(t, s.RaiseIDs(ctx, 5_000_000_000))
		must(t, s.RaiseIDs(ctx, 7))
		r, list := admitted(t, s)
		want(t, "run id", r.ID, 5_000_000_001)
		want(t, "task run id", list[0].ID, 5_000_000_001)
	})
}

func TestCancelledContext(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Graph(stopped, "SALES"); !errors.Is(err, stopped.Err()) {
			t.Fatal(err)
		}
		_, err := s.Graph(ctx, "SALES")
		wantCode(t, err, fault.PipelineNotFound)
	})
}

// TestAdmissionBesideOtherDates: a run of another date, of a backfill or in place of one is not what an admission collides with.
func TestAdmissionBesideOtherDates(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		first, _ := admitted(t, s)
		must(t, s.CancelRun(ctx, first.ID, "why", Tester))
		seen := first.ID
		other := func(key, date, trigger string) {
			n := newRun(first.PipelineID, key)
			n.Date, n.Trigger = date, trigger
			r, err := s.AdmitRun(ctx, n)
			must(t, err)
			must(t, s.CancelRun(ctx, r.ID, "why", Tester))
		}
		other("backfill:1", first.Date, store.TriggerBackfill)
		other("manual:other", "2026-08-31", store.TriggerManual)
		_, err := s.AddStandIn(ctx, store.StandIn{PipelineID: first.PipelineID, Key: "manual:standin", Date: first.Date, Status: store.Success, Reason: "why", Actor: Tester})
		must(t, err)
		mine := newRun(first.PipelineID, "manual:mine")
		mine.Newest = &seen
		r, err := s.AdmitRun(ctx, mine)
		must(t, err)
		must(t, s.CancelRun(ctx, r.ID, "why", Tester))
		mine.Key = "manual:again"
		_, err = s.AdmitRun(ctx, mine)
		wantCode(t, err, fault.RunActive)
		found, err := s.RunSince(ctx, first.PipelineID, seen, first.Date)
		must(t, err)
		want(t, "found", found.ID, r.ID)
	})
}
