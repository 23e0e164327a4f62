package storetest

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
)

// told is the notifications of a pipeline as "webhook EVENT STATUS", the oldest first.
func told(t *testing.T, s *store.Store, pipelineID int64) string {
	t.Helper()
	list, err := s.Notifications(ctx, pipelineID, 100)
	must(t, err)
	var lines []string
	for i := len(list) - 1; i >= 0; i-- {
		lines = append(lines, list[i].Webhook+" "+list[i].Event+" "+list[i].Status)
	}
	return strings.Join(lines, ", ")
}

func listening() store.Subscriptions {
	return store.Subscriptions{"chat": {"SUCCESS", "SKIPPED"}, "ops": {"FAILED", "CANCELLED", store.SLABreached}}
}

func TestNotifications(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		s.Subscribe("prod", listening())
		r, _ := failedRun(t, s)
		want(t, "told", told(t, s, r.PipelineID), "ops FAILED PENDING")

		m, err := s.ClaimNotification(ctx, "ops", time.Minute)
		must(t, err)
		var body store.NotificationBody
		must(t, json.Unmarshal([]byte(m.Body), &body))
		want(t, "body", body.Schema+" "+body.Event+" "+body.Profile+" "+body.Pipeline+" "+body.Status, "etl-craft/notification/1 FAILED prod SALES FAILED")
		want(t, "run", body.PipelineRunID, r.ID)
		want(t, "tasks", body.Tasks[store.Failed]*10+body.Tasks[store.Skipped], 11)
		want(t, "failed task", body.FailedTasks[0].Task+" "+*body.FailedTasks[0].ErrorCode+" "+*body.FailedTasks[0].ErrorMessage, "extract STATEMENT_FAILED no such table")
		want(t, "ended", body.EndedAt != nil && *body.EndedAt >= body.StartedAt && body.OccurredAt >= *body.EndedAt && len(body.OccurredAt) == len("2026-09-01T05:00:00.123456Z"), true)
		want(t, "try", m.Try, 1)

		for _, webhook := range []string{"ops", "chat"} {
			other, err := s.ClaimNotification(ctx, webhook, time.Minute)
			must(t, err)
			want(t, "due for "+webhook+" meanwhile", other == nil, true)
		}

		must(t, s.EndNotification(ctx, store.Delivery{ID: m.ID, Status: store.NotificationPending, RetryIn: -time.Second, HTTPStatus: 503, Error: "it answered 503"}))
		again, err := s.ClaimNotification(ctx, "ops", time.Minute)
		must(t, err)
		want(t, "again", again.MessageID+again.Body, m.MessageID+m.Body)
		want(t, "try", again.Try, 2)
		must(t, s.EndNotification(ctx, store.Delivery{ID: m.ID, Status: store.NotificationDelivered, HTTPStatus: 204}))
		list, err := s.Notifications(ctx, 0, 1)
		must(t, err)
		want(t, "delivered", list[0].Status, store.NotificationDelivered)
		want(t, "answer", *list[0].HTTPStatus, 204)
		want(t, "error", list[0].Error, "")
		want(t, "next try", list[0].NextTryAt == nil, true)

		// A late word of another process about a notification that was delivered changes nothing.
		must(t, s.EndNotification(ctx, store.Delivery{ID: m.ID, Status: store.NotificationFailed, Error: "late"}))
		want(t, "told", told(t, s, r.PipelineID), "ops FAILED DELIVERED")
	})
}

// TestEveryEndIsTold ends runs in every way that there is; a run that was made by hand tells nobody.
func TestEveryEndIsTold(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		s.Subscribe("prod", store.Subscriptions{"all": {"SUCCESS", "FAILED", "SKIPPED", "CANCELLED", store.SLABreached}})
		first, list := admitted(t, s)
		for _, task := range list {
			finish(t, s, start(t, s, task.ID, "one"), store.Success)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: first.ID, Owner: "one", Status: store.Success, Actor: Tester}))
		admit := func(key string) *store.Run {
			r, err := s.AdmitRun(ctx, newRun(first.PipelineID, key))
			must(t, err)
			return r
		}
		must(t, s.CancelRun(ctx, admit("manual:2").ID, "why", Tester))
		must(t, s.SkipRun(ctx, admit("manual:3").ID, "why", Tester, func([]store.TaskRun) (string, string) { return store.Skipped, store.SkipOperator }))
		must(t, s.MarkRun(ctx, store.RunMark{RunID: admit("manual:4").ID, Status: store.Failed, Reason: "why", Actor: Tester}))
		_, err := s.AddStandIn(ctx, store.StandIn{PipelineID: first.PipelineID, Key: "manual:5", Date: "2026-11-30", Status: store.Success, Reason: "why", Actor: Tester})
		must(t, err)
		want(t, "told", told(t, s, 0), "all SUCCESS PENDING, all CANCELLED PENDING, all SKIPPED PENDING, all FAILED PENDING")
	})
}

// TestOwnSubscriptions lets a pipeline say for itself what a webhook hears, beside whatever else PIPELINE_PARAMETERS holds.
func TestOwnSubscriptions(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		s.Subscribe("prod", listening())
		p := sales()
		p.Notifications = store.Subscriptions{"ops": {}, "chat": {"FAILED", "SUCCESS"}, "gone": {"FAILED"}}
		apply(t, s, p)
		want(t, "applied again", strings.Join(lines(apply(t, s, p)), ""), "")
		g := graph(t, s, "SALES")
		want(t, "own", strings.Join(g.Pipeline.Notifications["chat"], " "), "FAILED SUCCESS")
		r, err := s.AdmitRun(ctx, newRun(g.Pipeline.ID, "manual:1"))
		must(t, err)
		must(t, s.MarkRun(ctx, store.RunMark{RunID: r.ID, Status: store.Failed, Reason: "why", Actor: Tester}))
		want(t, "told", told(t, s, r.PipelineID), "chat FAILED PENDING")

		Exec(t, s, `UPDATE {{schema}}.CFG_PIPELINES SET PIPELINE_PARAMETERS = '{"TAGS": ["a"], "NOTIFICATIONS": {"chat": ["FAILED"]}}'`)
		want(t, "changes", strings.HasPrefix(strings.Join(lines(apply(t, s, p)), ""), "UPDATE pipeline SALES"), true)
		p.Notifications = nil
		apply(t, s, p)
		want(t, "left", strings.ReplaceAll(Value(t, s, `SELECT CAST(PIPELINE_PARAMETERS AS TEXT) FROM {{schema}}.CFG_PIPELINES`), " ", ""), `{"TAGS":["a"]}`)
		Exec(t, s, `UPDATE {{schema}}.CFG_PIPELINES SET PIPELINE_PARAMETERS = '{"NOTIFICATIONS": "ops"}'`)
		want(t, "unreadable", graph(t, s, "SALES").Pipeline.NotificationsError != nil, true)
		apply(t, s, p)
		want(t, "repaired", graph(t, s, "SALES").Pipeline.NotificationsError, nil)
	})
}

// TestSLAPasses finds the SLA of a run that is still running passed, once, whichever process looks.
func TestSLAPasses(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		s.Subscribe("prod", listening())
		hours := 1.0
		p := sales()
		p.SLAHours = &hours
		r, list := admitted(t, s)
		apply(t, s, p)
		g, err := s.Signal(ctx, r.ID)
		must(t, err)
		want(t, "passed at once", g.SLAPassed, false)
		breached, err := s.BreachSLA(ctx, r.ID)
		must(t, err)
		want(t, "breached at once", breached, false)

		Exec(t, s, `UPDATE {{schema}}.AUD_PIPELINES_RUN_LOG SET START_DATE = '2020-01-01T00:00:00.000000Z'`)
		g, err = s.Signal(ctx, r.ID)
		must(t, err)
		want(t, "passed", g.SLAPassed, true)
		open, err := s.RunsWithOpenSLA(ctx, 0)
		must(t, err)
		want(t, "open", len(open) == 1 && open[0] == r.ID, true)
		var wait sync.WaitGroup
		found := make([]bool, 4)
		for i := range found {
			wait.Go(func() {
				var err error
				if found[i], err = s.BreachSLA(ctx, r.ID); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		times := 0
		for _, f := range found {
			if f {
				times++
			}
		}
		want(t, "times found", times, 1)
		want(t, "recorded", run(t, s, r.ID).SLAStatus, "BREACHED")
		want(t, "told", told(t, s, 0), "ops SLA_BREACHED PENDING")
		m, err := s.ClaimNotification(ctx, "ops", time.Minute)
		must(t, err)
		var body store.NotificationBody
		must(t, json.Unmarshal([]byte(m.Body), &body))
		want(t, "body", body.Status+" "+*body.SLAStatus, "IN_PROGRESS BREACHED")
		want(t, "hours", *body.SLAHours, 1)
		want(t, "ended", body.EndedAt == nil, true)

		for _, task := range list {
			finish(t, s, start(t, s, task.ID, "one"), store.Success)
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
		want(t, "at the end", run(t, s, r.ID).SLAStatus, "BREACHED")
		want(t, "told once", told(t, s, 0), "ops SLA_BREACHED PENDING, chat SUCCESS PENDING")

		// A run that ends before anybody looked tells both.
		late, err := s.AdmitRun(ctx, newRun(r.PipelineID, "manual:late"))
		must(t, err)
		Exec(t, s, `UPDATE {{schema}}.AUD_PIPELINES_RUN_LOG SET START_DATE = '2020-01-01T00:00:00.000000Z' WHERE RUN_KEY = 'manual:late'`)
		must(t, s.CancelRun(ctx, late.ID, "too late", Tester))
		want(t, "told both", strings.HasSuffix(told(t, s, 0), "ops SLA_BREACHED PENDING, ops CANCELLED PENDING"), true)
	})
}

// TestClaimedByOne has several processes deliver at the same time: nothing is taken twice.
func TestClaimedByOne(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		s.Subscribe("prod", store.Subscriptions{"ops": {"CANCELLED"}})
		apply(t, s, sales())
		id := graph(t, s, "SALES").Pipeline.ID
		const runs = 20
		for i := range runs {
			r, err := s.AdmitRun(ctx, newRun(id, "manual:"+idText(int64(i))))
			must(t, err)
			must(t, s.CancelRun(ctx, r.ID, "why", Tester))
		}
		var mu sync.Mutex
		taken := map[int64]int{}
		var wait sync.WaitGroup
		for range 4 {
			other := e.Store()
			wait.Go(func() {
				for {
					m, err := other.ClaimNotification(ctx, "ops", time.Hour)
					if err != nil || m == nil {
						if err != nil {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					taken[m.ID]++
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		want(t, "taken", len(taken), runs)
		for id, n := range taken {
			want(t, "times of "+idText(id), n, 1)
		}
	})
}
