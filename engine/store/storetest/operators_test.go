package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// history is the interventions of a run as "ACTION task FROM>TO".
func interventions(t *testing.T, s *store.Store, r *store.Run) string {
	t.Helper()
	list, err := s.InterventionsOfRuns(ctx, r.PipelineID, r.ID, r.ID)
	must(t, err)
	var lines []string
	for _, i := range list {
		line := i.Action + " " + i.From + ">" + i.To
		if i.Task != "" {
			line = i.Action + " " + i.Task + " " + i.From + ">" + i.To
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func states(t *testing.T, s *store.Store, runID int64) string {
	t.Helper()
	var parts []string
	for _, row := range tasks(t, s, runID) {
		part := row.TaskCode + "=" + row.Status
		if row.SkipReason != "" {
			part += "/" + row.SkipReason
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// failedRun is an ended run of SALES whose extract failed, so that load was skipped.
func failedRun(t *testing.T, s *store.Store) (*store.Run, []store.TaskRun) {
	t.Helper()
	r, list := admitted(t, s)
	a := start(t, s, list[0].ID, "one")
	must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Failed, TaskStatus: store.Failed,
		ErrorCode: "STATEMENT_FAILED", Error: "no such table"}))
	must(t, s.SkipTasks(ctx, r.ID, store.Claim{}, []store.Skip{{TaskRunID: list[1].ID, Reason: store.SkipUpstream, Message: "extract failed"}}))
	must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester}))
	return r, list
}

func mark(r *store.Run, task store.TaskRun, status string, downstream ...int64) store.TaskMark {
	return store.TaskMark{RunID: r.ID, TaskID: task.TaskID, TaskCode: task.TaskCode, Status: status, Downstream: downstream,
		Action: store.ActionMark, Reason: "loaded by hand", Actor: Tester}
}

func TestMarkTaskReopensAndResets(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := failedRun(t, s)
		rows := int64(7)
		m := mark(r, list[0], store.Success, list[1].TaskID)
		m.Rows = &rows
		must(t, s.MarkTask(ctx, m))
		want(t, "tasks", states(t, s, r.ID), "extract=SUCCESS load=PENDING")
		marked := tasks(t, s, r.ID)[0]
		want(t, "counts", text(marked.Counts), "- - - - - 7")
		want(t, "error", marked.ErrorCode+marked.Error, "")
		reopened := run(t, s, r.ID)
		want(t, "run", reopened.Status, store.InProgress)
		want(t, "owner", reopened.OwnerID, "")
		want(t, "repair", reopened.RepairPending, true)
		want(t, "interventions", interventions(t, s, r), "REOPEN FAILED>IN_PROGRESS, MARK extract FAILED>SUCCESS, RESET load SKIPPED>")
		all, err := s.Interventions(ctx, 0, time.Unix(0, 0))
		must(t, err)
		want(t, "rows stated", *all[1].Rows, 7)
		want(t, "message before", all[1].Message, "no such table")
		want(t, "reason", all[1].Reason, "loaded by hand")
		want(t, "by", all[1].Actor, Tester)
		later, err := s.Interventions(ctx, r.PipelineID, time.Now().Add(time.Hour))
		must(t, err)
		want(t, "later ones", len(later), 0)

		g, err := s.Signal(ctx, r.ID)
		must(t, err)
		old := g.Intervention - 1
		end := store.RunEnd{RunID: r.ID, Status: store.Success, Actor: Tester, Seen: &old}
		wantCode(t, s.EndRun(ctx, end), fault.RunUnfinished)
		must(t, s.MarkTask(ctx, mark(r, list[1], store.Failed)))
		failed := tasks(t, s, r.ID)[1]
		want(t, "marked", failed.ErrorCode+" "+failed.Error, "MARKED_FAILED loaded by hand")
		g, err = s.Signal(ctx, r.ID)
		must(t, err)
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Status: store.Failed, Actor: Tester, Seen: &g.Intervention}))

		// Beside another run it cannot be unfinished.
		second, err := s.AdmitRun(ctx, newRun(r.PipelineID, "manual:2"))
		must(t, err)
		err = s.MarkTask(ctx, mark(r, list[1], store.Success))
		wantCode(t, err, fault.RunActive)
		if !strings.Contains(err.Error(), idText(second.ID)) {
			t.Fatal(err)
		}
		want(t, "refused mark", states(t, s, r.ID), "extract=SUCCESS load=FAILED")
	})
}

func TestMarkRefusals(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		a := start(t, s, list[0].ID, "one")
		wantCode(t, s.MarkTask(ctx, mark(r, list[0], store.Success)), fault.TaskState)
		wantCode(t, s.MarkRun(ctx, store.RunMark{RunID: r.ID, Status: store.Success, Reason: "x", Actor: Tester}), fault.TaskState)
		nothing := func([]store.TaskRun) (string, string) { return store.Success, "" }
		wantCode(t, s.SkipRun(ctx, r.ID, "x", Tester, nothing), fault.TaskState)
		finish(t, s, a, store.Success)
		skip := mark(r, list[0], store.Skipped)
		skip.Action = store.ActionSkip
		wantCode(t, s.MarkTask(ctx, skip), fault.TaskState)
		wantCode(t, s.MarkTask(ctx, store.TaskMark{RunID: r.ID, TaskID: 99, Status: store.Success, Action: store.ActionMark, Reason: "x", Actor: Tester}), fault.TaskNotFound)
		wantCode(t, s.MarkTask(ctx, store.TaskMark{RunID: 5, TaskID: 1, Status: store.Success, Action: store.ActionMark, Reason: "x", Actor: Tester}), fault.RunNotFound)

		// A process that took a task for PENDING starts nothing once it was marked.
		must(t, s.MarkTask(ctx, mark(r, list[1], store.Success)))
		_, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[1].ID, From: store.Pending, Owner: "one", Actor: Tester})
		wantCode(t, err, fault.TaskState)
		must(t, s.CancelRun(ctx, r.ID, "x", Tester))
		wantCode(t, s.MarkTask(ctx, mark(r, list[1], store.Success)), fault.RunEnded)
		wantCode(t, s.MarkRun(ctx, store.RunMark{RunID: r.ID, Status: store.Success, Reason: "x", Actor: Tester}), fault.RunEnded)
		wantCode(t, s.SkipRun(ctx, r.ID, "x", Tester, nothing), fault.RunEnded)
		want(t, "interventions", interventions(t, s, r), "MARK load PENDING>SUCCESS, CANCEL IN_PROGRESS>CANCELLED")
	})
}

func TestMarkRun(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		must(t, s.MarkRun(ctx, store.RunMark{RunID: r.ID, Status: store.Skipped, Reason: "no data today", Actor: Tester}))
		ended := run(t, s, r.ID)
		want(t, "run", ended.Status+" "+ended.SkipReason+" "+ended.OwnerID, "SKIPPED OPERATOR ")
		want(t, "tasks", states(t, s, r.ID), "extract=PENDING load=PENDING")
		must(t, s.MarkRun(ctx, store.RunMark{RunID: r.ID, Status: store.Success, Reason: "there was", Actor: Tester}))
		again := run(t, s, r.ID)
		want(t, "run", again.Status+" "+again.SkipReason, "SUCCESS ")
		want(t, "revision", again.OutputRevision, 2)
		want(t, "interventions", interventions(t, s, r), "MARK IN_PROGRESS>SKIPPED, MARK SKIPPED>SUCCESS")
	})
}

func TestSkipRun(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		finish(t, s, start(t, s, list[0].ID, "one"), store.Success)
		start(t, s, list[1].ID, "dead")
		_, err := s.LoseAttempts(ctx, r.ID, "dead")
		must(t, err)
		var seen string
		must(t, s.SkipRun(ctx, r.ID, "not needed", Tester, func(rows []store.TaskRun) (string, string) {
			for _, row := range rows {
				seen += row.Status + " "
			}
			return store.Success, ""
		}))
		want(t, "what outcome saw", seen, "SUCCESS SKIPPED ")
		want(t, "tasks", states(t, s, r.ID), "extract=SUCCESS load=SKIPPED/OPERATOR")
		skipped := tasks(t, s, r.ID)[1]
		want(t, "what is said of it", skipped.ErrorCode+" "+skipped.Error, " not needed")
		want(t, "run", run(t, s, r.ID).Status, store.Success)
		want(t, "interventions", interventions(t, s, r), "SKIP IN_PROGRESS>SUCCESS")
	})
}

func TestCancel(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		a := start(t, s, list[0].ID, "one")
		must(t, s.CancelRun(ctx, r.ID, "wrong date", Tester))
		want(t, "tasks", states(t, s, r.ID), "extract=IN_PROGRESS load=CANCELLED")
		cancelled := run(t, s, r.ID)
		want(t, "run", cancelled.Status+cancelled.OwnerID, store.Cancelled)
		want(t, "ended by", cancelled.EndedBy, Tester)
		wantCode(t, s.CancelRun(ctx, r.ID, "again", Tester), fault.RunEnded)
		_, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[1].ID, Owner: "one", Actor: Tester})
		wantCode(t, err, fault.RunCancelled)
		wantCode(t, s.SyncTasks(ctx, r.ID), fault.RunEnded)
		wantCode(t, s.ResetTasks(ctx, r.ID, store.ResetAll), fault.RunEnded)

		// There is no next try in a run that was cancelled, whatever its runner thinks.
		must(t, s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Failed, TaskStatus: store.Pending, RetryIn: time.Minute}))
		want(t, "tasks", states(t, s, r.ID), "extract=CANCELLED load=CANCELLED")
		_, err = s.AdmitRun(ctx, newRun(r.PipelineID, "manual:2"))
		must(t, err)
	})
}

func TestCancelOfDeadRunner(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		start(t, s, list[0].ID, "dead")
		must(t, s.CancelRun(ctx, r.ID, "x", Tester))
		live, err := s.LiveAttempts(ctx, r.PipelineID)
		must(t, err)
		want(t, "live", len(live), 1)
		want(t, "where", live[0].Pipeline+"."+live[0].Task+" "+live[0].RunStatus+" "+live[0].OwnerID, "SALES.extract CANCELLED dead")
		n, err := s.LoseAttempts(ctx, r.ID, "dead")
		must(t, err)
		want(t, "lost", n, 1)
		want(t, "tasks", states(t, s, r.ID), "extract=CANCELLED load=CANCELLED")
		live, err = s.LiveAttempts(ctx, 0)
		must(t, err)
		want(t, "live", len(live), 0)
	})
}

// TestCancelRacesWithARetry: whoever is first, no task of a cancelled run stays PENDING.
func TestCancelRacesWithARetry(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		other := e.Store()
		apply(t, s, sales())
		pipelineID := graph(t, s, "SALES").Pipeline.ID
		for i := range 10 {
			r, err := s.AdmitRun(ctx, newRun(pipelineID, "race:"+idText(int64(i))))
			must(t, err)
			a := start(t, s, tasks(t, s, r.ID)[0].ID, "one")
			var both sync.WaitGroup
			both.Go(func() {
				if err := s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Failed, TaskStatus: store.Pending}); err != nil {
					t.Error(err)
				}
			})
			both.Go(func() {
				if err := other.CancelRun(ctx, r.ID, "x", Tester); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			want(t, "tasks", states(t, s, r.ID), "extract=CANCELLED load=CANCELLED")
		}
	})
}

func TestPause(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, list := admitted(t, s)
		must(t, s.PausePipeline(ctx, r.PipelineID, "the source is down", Tester))
		wantCode(t, s.PausePipeline(ctx, r.PipelineID, "again", Tester), fault.Paused)
		_, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, Owner: "one", Actor: Tester})
		wantCode(t, err, fault.Paused)
		g, err := s.Signal(ctx, r.ID)
		must(t, err)
		want(t, "signal", g, store.Signal{Status: store.InProgress, PausedBy: Tester.Name, PauseWhy: "the source is down"})
		ended, err := s.ResumePipeline(ctx, r.PipelineID, "", Tester)
		must(t, err)
		want(t, "ended", ended, true)
		ended, err = s.ResumePipeline(ctx, r.PipelineID, "", Tester)
		must(t, err)
		want(t, "ended twice", ended, false)
		p, err := s.PauseOf(ctx, r.PipelineID)
		if p != nil || err != nil {
			t.Fatal(p, err)
		}
		start(t, s, list[0].ID, "one")
		_, err = s.Signal(ctx, 5)
		wantCode(t, err, fault.RunNotFound)
	})
}

func TestStandIn(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		in := store.StandIn{PipelineID: r.PipelineID, Key: "stand-in:1", Date: "2026-09-02", Status: store.Success, Reason: "loaded by hand", Actor: Tester}
		_, err := s.AddStandIn(ctx, in)
		wantCode(t, err, fault.RunActive)
		must(t, s.CancelRun(ctx, r.ID, "x", Tester))
		stand, err := s.AddStandIn(ctx, in)
		must(t, err)
		want(t, "run", stand.Status+" "+stand.Trigger+" "+stand.Date, "SUCCESS STAND_IN 2026-09-02")
		want(t, "tasks", states(t, s, stand.ID), "")
		want(t, "interventions", interventions(t, s, stand), "NEW_RUN >SUCCESS")
	})
}

func TestActionsWithTheirRuns(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		id, err := s.BeginAction(ctx, store.ActionRecord{Actor: Tester, Host: "h1", Command: "run", Arguments: `{"pipeline":"SALES"}`, PipelineID: r.PipelineID})
		must(t, err)
		must(t, s.NoteRun(ctx, id, r.ID))
		must(t, s.NoteRun(ctx, id, r.ID+1)) // the first one counts
		must(t, s.EndAction(ctx, id, "DONE", 0))
		if _, err := TryExec(s, "UPDATE {{schema}}.AUD_ACTIONS SET PIPELINE_RUN_ID = NULL"); err == nil {
			t.Fatal("the run of a command that has ended can be taken away")
		}
		other, err := s.BeginAction(ctx, store.ActionRecord{Actor: Tester, Host: "h1", Command: "apply", Arguments: "{}"})
		must(t, err)
		must(t, s.NoteRun(ctx, other, r.ID))
		if _, err := TryExec(s, "UPDATE {{schema}}.AUD_ACTIONS SET PIPELINE_RUN_ID = 5 WHERE OUTCOME IS NULL"); err == nil {
			t.Fatal("the run of a command can be changed")
		}
		all, err := s.Actions(ctx, 0, time.Unix(0, 0))
		must(t, err)
		want(t, "actions", len(all), 2)
		a := all[0]
		want(t, "first", a.Command+" "+a.Pipeline+" "+a.Outcome+" "+a.Host, "run SALES DONE h1")
		want(t, "its run", a.RunID, r.ID)
		want(t, "its exit code", *a.ExitCode, 0)
		of, err := s.Actions(ctx, r.PipelineID, time.Unix(0, 0))
		must(t, err)
		want(t, "of the pipeline", len(of), 1)
		owned, err := s.OwnedRuns(ctx, 0)
		must(t, err)
		want(t, "owned", len(owned), 1)
		want(t, "owner", owned[0].OwnerID, "one")
	})
}
