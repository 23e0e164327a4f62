package storetest

import (
	"fmt"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

func TestTenThousandTasks(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		const n = 10_000
		p := sales()
		p.Tasks = nil
		apply(t, s, p)
		Exec(t, s, `
			INSERT INTO {{schema}}.CFG_TASKS (TASK_CODE, TASK_TYPE, PIPELINE_ID, HANDLER)
			WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)
			SELECT 't' || n, 'ETL', 1, 'SQL' FROM numbers ORDER BY n`)
		Exec(t, s, `
			INSERT INTO {{schema}}.CFG_TASK_DEPENDENCY (PIPELINE_ID, TASK_ID, DEPENDS_ON_TASK_ID, DEPENDENCY_TYPE)
			SELECT 1, TASK_ID, TASK_ID - 1, 'SUCCESS' FROM {{schema}}.CFG_TASKS WHERE TASK_ID > 1`)

		g := graph(t, s, "SALES")
		want(t, "tasks", len(g.Tasks), n)
		want(t, "edge", g.Tasks[n-1].DependsOn[0].TaskCode, fmt.Sprintf("t%d", n-1))
		r, err := s.AdmitRun(ctx, newRun(g.Pipeline.ID, "k"))
		must(t, err)
		list := tasks(t, s, r.ID)
		want(t, "rows", len(list), n)
		want(t, "ids in order", list[n-1].ID-list[0].ID, n-1)

		skips := make([]store.Skip, n)
		for i, task := range list {
			skips[i] = store.Skip{TaskRunID: task.ID, Reason: store.SkipUpstream, Message: fmt.Sprintf("it's number %d", i)}
		}
		must(t, s.SkipTasks(ctx, r.ID, store.Claim{}, skips))
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Failed, Actor: Tester}))
		want(t, "message", tasks(t, s, r.ID)[7].Error, "it's number 7")
	})
}
