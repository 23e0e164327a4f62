package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
)

func TestTenThousandTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		const n = 10_000
		p := store.DesiredPipeline{Code: "BIG", Name: "Big", RefreshType: "FULL"}
		for i := range n {
			task := store.DesiredTask{Code: fmt.Sprintf("t%d", i), Type: "ETL", Handler: "SQL"}
			if i > 0 {
				task.DependsOn = []store.DesiredTaskEdge{{Task: fmt.Sprintf("t%d", i-1), Type: store.OnSuccess}}
			}
			p.Tasks = append(p.Tasks, task)
		}
		timed(t, "apply", func() { apply(t, s, p) })
		var g *store.Graph
		timed(t, "graph", func() { g = graph(t, s, "BIG") })
		want(t, "tasks", len(g.Tasks), n)
		want(t, "edge", g.Tasks[n-1].DependsOn[0].TaskCode, fmt.Sprintf("t%d", n-2))
		var r *store.Run
		timed(t, "admit", func() {
			var err error
			r, err = s.AdmitRun(ctx, newRun(g.Pipeline.ID, "k"))
			must(t, err)
		})
		var list []store.TaskRun
		timed(t, "task runs", func() { list = tasks(t, s, r.ID) })
		want(t, "rows", len(list), n)
		want(t, "in order", list[n-1].ID-list[0].ID, n-1)
		skips := make([]store.Skip, n)
		for i, task := range list {
			skips[i] = store.Skip{TaskRunID: task.ID, Reason: store.SkipUpstream, Message: fmt.Sprintf("it's number %d", i)}
		}
		timed(t, "skip", func() { must(t, s.SkipTasks(ctx, r.ID, skips)) })
		timed(t, "end", func() {
			must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester}))
		})
		want(t, "message", tasks(t, s, r.ID)[7].Error, "it's number 7")
	})
}

func timed(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
}
