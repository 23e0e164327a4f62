package engine

import (
	"context"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
)

func TestExplainLastIntervention(t *testing.T) {
	on := func(task, action, to string) store.Intervention {
		return store.Intervention{Task: task, Action: action, To: to, Reason: action + " " + to}
	}
	markedFailed, markedSuccess := on("a", store.ActionMark, store.Failed), on("a", store.ActionMark, store.Success)
	skipped, runSkipped := on("a", store.ActionSkip, store.Skipped), on("", store.ActionSkip, store.Success)
	for _, c := range []struct {
		name   string
		status string
		list   []store.Intervention
		want   string
	}{
		{"nothing", store.Success, nil, ""},
		{"of another task", store.Success, []store.Intervention{on("b", store.ActionMark, store.Success)}, ""},
		{"the last mark", store.Failed, []store.Intervention{markedSuccess, markedFailed}, "MARK FAILED"},
		{"failed, and tried again", store.Success, []store.Intervention{markedFailed}, ""},
		{"run again", store.Success, []store.Intervention{markedSuccess, on("a", store.ActionRerun, "")}, ""},
		{"all run again", store.Success, []store.Intervention{markedSuccess, on("", store.ActionReset, "")}, ""},
		{"the run reopened", store.Success, []store.Intervention{markedSuccess, on("", "REOPEN", store.InProgress)}, "MARK SUCCESS"},
		{"the run marked", store.Success, []store.Intervention{markedSuccess, on("", store.ActionMark, store.Failed)}, "MARK SUCCESS"},
		{"skipped with its run", store.Skipped, []store.Intervention{runSkipped}, "SKIP SUCCESS"},
		{"skipped before its run", store.Skipped, []store.Intervention{skipped, runSkipped}, "SKIP SKIPPED"},
		{"failed, tried again, skipped with its run", store.Skipped, []store.Intervention{markedFailed, runSkipped}, "SKIP SUCCESS"},
		{"ended before its run was skipped", store.Success, []store.Intervention{runSkipped}, ""},
		{"cancelled", store.Cancelled, []store.Intervention{markedFailed, on("", store.ActionCancel, store.Cancelled)}, "CANCEL CANCELLED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if i := lastMade(c.list, "a", &store.TaskRun{Status: c.status}); i != nil {
				got = i.Reason
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestExplainGateOfAWaitLeftBehind: the wait of a process that has gone is not told as one that goes on.
func TestExplainGateOfAWaitLeftBehind(t *testing.T) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	b.applyTo("SALES", onRaw, "a:")
	e := b.engine()
	g, err := b.store.Graph(context.Background(), "SALES")
	if err != nil {
		t.Fatal(err)
	}
	wait := store.GateWait{PipelineID: g.Pipeline.ID}
	for _, c := range []struct {
		next  time.Duration
		waits bool
	}{{gatePoll, true}, {-time.Minute, false}} {
		if _, err := b.store.WaitForGate(context.Background(), wait, c.next, time.Hour); err != nil {
			t.Fatal(err)
		}
		doc, err := e.Explain(context.Background(), ExplainRequest{Task: "a", StatusRequest: StatusRequest{Pipeline: "SALES"}})
		if err != nil {
			t.Fatal(err)
		}
		if (doc.WaitsUntil != nil) != c.waits {
			t.Errorf("looked at again after %s: waits until %v: %s", c.next, doc.WaitsUntil, doc.Why)
		}
	}
}
