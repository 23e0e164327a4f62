package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

var (
	sha1st = strings.Repeat("a", 64)
	sha2nd = strings.Repeat("b", 64)
	target = store.TargetName{Identity: "pg:1:dw", Name: "dw.staging.orders"}
)

func TestAttemptFromStartToEnd(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		a := start(t, s, list[0].ID, "one")
		want(t, "number", a.Number, 1)
		running := tasks(t, s, r.ID)[0]
		want(t, "task", running.Status, store.InProgress)
		want(t, "started", running.StartedAt != nil && running.EndedAt == nil, true)

		must(t, s.Advance(ctx, a.ID, "one", store.Progress{
			Phase: store.PhaseWriting, Planned: sixCounts(10), SelectSHA256: sha1st, PlanSHA256: sha2nd}))
		must(t, s.Advance(ctx, a.ID, "one", store.Progress{
			Phase: store.PhaseCommitting, Witness: "rows of this task run", Target: target, HashVersion: 2, CompareColumns: "name|email"}))
		record, err := s.TargetRecord(ctx, target)
		must(t, err)
		want(t, "target", record, store.TargetRecord{Known: true, HashVersion: 2, CompareColumns: "name|email"})
		want(t, "first task run", Value(t, s, "SELECT FIRST_TASK_RUN_ID FROM {{schema}}.AUD_TARGETS"), idText(list[0].ID))
		elsewhere, err := s.TargetRecord(ctx, store.TargetName{Identity: "pg:2:dw", Name: target.Name})
		must(t, err)
		want(t, "the same name in another warehouse", elsewhere, store.TargetRecord{})

		must(t, s.FinishAttempt(ctx, store.Outcome{
			AttemptID: a.ID, Owner: "one", Status: store.Success, TaskStatus: store.Success,
			Counts: sixCounts(20), TaskCounts: sixCounts(30), TaskLog: "done", ForgetTarget: &target}))
		done := attempts(t, s, list[0].ID)[0]
		want(t, "status", done.Status+" "+done.Phase+" "+done.Witness, "SUCCESS COMMITTING rows of this task run")
		want(t, "planned", text(done.Planned), "10 11 12 13 14 15")
		want(t, "counts", text(done.Counts), "20 21 22 23 24 25")
		want(t, "digests", done.SelectSHA256+done.PlanSHA256, sha1st+sha2nd)
		want(t, "who", done.OwnerID+" "+done.Host+" "+done.LogPath, "one h1 logs/x.log")
		want(t, "not before", done.NotBefore == nil, true)
		want(t, "instant", done.Instant.Equal(*a.Instant), true)
		task := tasks(t, s, r.ID)[0]
		want(t, "task", task.Status+" "+task.TargetName, "SUCCESS dw.staging.orders")
		want(t, "task counts", text(task.Counts), "30 31 32 33 34 35")
		want(t, "attempts", task.Attempts, 1)
		record, err = s.TargetRecord(ctx, target)
		must(t, err)
		want(t, "forgotten", record, store.TargetRecord{Known: true})
	})
}

func TestFailedAttemptAndRetry(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		first := start(t, s, list[0].ID, "one")
		must(t, s.FinishAttempt(ctx, store.Outcome{
			AttemptID: first.ID, Owner: "one", Status: store.Failed, TaskStatus: store.Pending, RetryIn: time.Hour, Retryable: true,
			ErrorCode: "WRITE_CONFLICT", Error: "somebody else wrote", ErrorStep: "insert", ErrorHint: "wait"}))
		waiting := tasks(t, s, r.ID)[0]
		want(t, "task", waiting.Status+" "+waiting.ErrorCode+" "+waiting.Error+" "+waiting.ErrorStep+" "+waiting.ErrorHint,
			"PENDING WRITE_CONFLICT somebody else wrote insert wait")
		failed := attempts(t, s, list[0].ID)[0]
		want(t, "due", waiting.NotBefore.Sub(*failed.EndedAt).Round(time.Second), time.Hour)
		want(t, "retryable", failed.Retryable, true)
		want(t, "ended", waiting.EndedAt == nil, true)

		second := start(t, s, list[0].ID, "one")
		want(t, "number", second.Number, 2)
		if !second.Instant.After(*first.Instant) {
			t.Fatalf("instants %s, then %s", first.Instant, second.Instant)
		}
		again := tasks(t, s, r.ID)[0]
		want(t, "cleared", again.Error+again.ErrorCode, "")
		want(t, "not before", again.NotBefore == nil, true)
		want(t, "first start", again.StartedAt.Equal(*waiting.StartedAt), true)
	})
}

// Attempts that follow each other within one tick of the clock still have instants of their own.
func TestInstantsAreDistinct(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		_, list := admitted(t, s)
		for range 10 {
			finish(t, s, start(t, s, list[0].ID, "one"), store.Failed)
		}
		all := attempts(t, s, list[0].ID)
		for i := 1; i < len(all); i++ {
			if !all[i].Instant.After(*all[i-1].Instant) {
				t.Fatalf("%s, then %s", all[i-1].Instant, all[i].Instant)
			}
		}
	})
}

func TestOneLiveAttempt(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		_, list := admitted(t, s)
		const racers = 4
		errs := make([]error, racers)
		var done sync.WaitGroup
		for i := range racers {
			other := e.Store()
			done.Add(1)
			go func() {
				defer done.Done()
				_, errs[i] = other.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, Owner: "racer", Actor: Tester})
			}()
		}
		done.Wait()
		started := 0
		for _, err := range errs {
			if err == nil {
				started++
				continue
			}
			wantCode(t, err, fault.TaskState)
		}
		want(t, "started", started, 1)
		want(t, "attempts", len(attempts(t, s, list[0].ID)), 1)
		_, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: 3, Owner: "one", Actor: Tester})
		wantCode(t, err, fault.RunNotFound)
	})
}

func TestZombieRecordsNothing(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		zombie := start(t, s, list[0].ID, "one")
		lost, err := s.LoseAttempts(ctx, r.ID, "one")
		must(t, err)
		want(t, "lost", lost, 1)
		want(t, "task", tasks(t, s, r.ID)[0].Status, store.Pending)
		again, err := s.LoseAttempts(ctx, r.ID, "one")
		must(t, err)
		want(t, "lost again", again, 0)

		outcome := store.Outcome{AttemptID: zombie.ID, Owner: "one", Status: store.Success, TaskStatus: store.Success, ForgetTarget: &target}
		wantCode(t, s.FinishAttempt(ctx, outcome), fault.StaleAttempt)
		successor := start(t, s, list[0].ID, "two")
		must(t, s.Advance(ctx, successor.ID, "two", store.Progress{Phase: store.PhaseWriting, Target: target, HashVersion: 2}))
		wantCode(t, s.FinishAttempt(ctx, outcome), fault.StaleAttempt)
		wantCode(t, s.Advance(ctx, zombie.ID, "one", store.Progress{Phase: store.PhaseCommitting, Target: target, HashVersion: 9}), fault.StaleAttempt)
		outcome.AttemptID = successor.ID
		wantCode(t, s.FinishAttempt(ctx, outcome), fault.StaleAttempt)

		record, err := s.TargetRecord(ctx, target)
		must(t, err)
		want(t, "hash version", record.HashVersion, 2)
		want(t, "task", tasks(t, s, r.ID)[0].Status, store.InProgress)
		all := attempts(t, s, list[0].ID)
		want(t, "attempts", all[0].Status+" "+all[0].ErrorCode+" "+all[0].Phase+" "+all[1].Status, "LOST ATTEMPT_LOST STARTED RUNNING")
		want(t, "retryable", all[0].Retryable, true)
		finish(t, s, successor, store.Success)
	})
}

func TestSettle(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		a := start(t, s, list[0].ID, "one")
		wantCode(t, s.Settle(ctx, a.ID, true), fault.StaleAttempt)
		_, err := s.LoseAttempts(ctx, r.ID, "one")
		must(t, err)
		want(t, "unsettled", attempts(t, s, list[0].ID)[0].Committed == nil, true)
		must(t, s.Settle(ctx, a.ID, true))
		must(t, s.Settle(ctx, a.ID, true))
		wantCode(t, s.Settle(ctx, a.ID, false), fault.StaleAttempt)
		want(t, "settled", *attempts(t, s, list[0].ID)[0].Committed, true)
	})
}

// Eight workers of two processes' stores share one Engine DB without an error for being busy.
func TestManyWorkers(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		p := sales()
		for _, code := range []string{"t1", "t2", "t3", "t4", "t5", "t6"} {
			p.Tasks = append(p.Tasks, store.DesiredTask{Code: code, Type: "ETL", Handler: "SQL"})
		}
		apply(t, s, p)
		r, err := s.AdmitRun(ctx, newRun(graph(t, s, "SALES").Pipeline.ID, "k"))
		must(t, err)
		list := tasks(t, s, r.ID)
		stores := []*store.Store{s, e.Store()}
		const rounds = 10
		var done sync.WaitGroup
		for i, task := range list {
			done.Add(1)
			go func() {
				defer done.Done()
				mine := stores[i%2]
				for range rounds {
					a, err := mine.StartAttempt(ctx, store.StartAttempt{TaskRunID: task.ID, Owner: "one", Actor: Tester})
					if err != nil {
						t.Error(err)
						return
					}
					if err := mine.Advance(ctx, a.ID, "one", store.Progress{Phase: store.PhaseWriting, Target: target}); err != nil {
						t.Error(err)
					}
					if err := mine.Heartbeat(ctx, "one", time.Minute); err != nil {
						t.Error(err)
					}
					if _, err := mine.TaskRuns(ctx, r.ID); err != nil {
						t.Error(err)
					}
					err = mine.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Success, TaskStatus: store.Success})
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
		done.Wait()
		for _, task := range tasks(t, s, r.ID) {
			want(t, task.TaskCode, task.Attempts, rounds)
		}
	})
}

// A run cannot end while an attempt is starting, whichever comes first.
func TestEndRacesStart(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s, other := e.Migrated().Store(), e.Store()
		apply(t, s, sales())
		id := graph(t, s, "SALES").Pipeline.ID
		for i := range 10 {
			r, err := s.AdmitRun(ctx, newRun(id, idText(int64(i))))
			must(t, err)
			list := tasks(t, s, r.ID)
			for _, task := range list {
				finish(t, s, start(t, s, task.ID, "one"), store.Failed)
			}
			var endErr, startErr error
			var a *store.Attempt
			var done sync.WaitGroup
			done.Add(2)
			go func() {
				defer done.Done()
				endErr = s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester})
			}()
			go func() {
				defer done.Done()
				a, startErr = other.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, Owner: "two", Actor: Tester})
			}()
			done.Wait()
			if startErr == nil {
				wantCode(t, endErr, fault.RunUnfinished)
				finish(t, s, a, store.Failed)
				must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester}))
				continue
			}
			wantCode(t, startErr, fault.RunEnded)
			must(t, endErr)
		}
	})
}
