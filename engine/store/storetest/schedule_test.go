package storetest

import (
	"fmt"
	"testing"
)

// TestSchedule: what no pipeline file says of a schedule is set in CFG_PIPELINES, and read with the rest.
func TestSchedule(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		p := graph(t, s, "SALES").Pipeline
		want(t, "schedule", p.StartDate+fmt.Sprint(p.Catchup), "false")
		Exec(t, s, "UPDATE {{schema}}.CFG_PIPELINES SET SCHEDULE_START_DATE = '2026-09-01', CATCHUP = 'Y' WHERE PIPELINE_CODE = 'SALES'")
		p = graph(t, s, "SALES").Pipeline
		want(t, "schedule", p.StartDate+fmt.Sprint(p.Catchup), "2026-09-01true")
		list, err := s.ListPipelines(ctx)
		must(t, err)
		want(t, "schedule in the list", list[0].StartDate+fmt.Sprint(list[0].Catchup), "2026-09-01true")
	})
}
