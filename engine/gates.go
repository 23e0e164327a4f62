package engine

import (
	"context"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// gateLooksBack is how many of the upstream's newest runs are looked at for one that qualifies.
const gateLooksBack = 50

// pipelineGates fails with NOT_READY unless every pipeline that this one waits for has a run that qualifies.
func (e *Engine) pipelineGates(ctx context.Context, g *store.Graph, date string) error {
	var unmet []string
	for _, edge := range g.DependsOn {
		run, err := e.qualifying(ctx, edge.PipelineID, edge.Match, date, func(r *store.Run) (bool, error) {
			return e.runHolds(ctx, edge.Type, r)
		})
		if err != nil {
			return err
		}
		if run == nil {
			unmet = append(unmet, edge.PipelineCode+" on "+edge.Type)
		}
	}
	if len(unmet) == 0 {
		return nil
	}
	return fault.New(fault.NotReady, "pipeline %s waits for %s", g.Pipeline.Code, strings.Join(unmet, ", ")).
		WithHint("etl-craft history --pipeline %s", strings.Fields(unmet[0])[0])
}

// taskGates counts how many of a task's dependencies on other pipelines hold.
func (e *Engine) taskGates(ctx context.Context, t *store.Task, date string) (int, error) {
	held := 0
	for _, edge := range t.DependsOn {
		if edge.PipelineID == t.PipelineID {
			continue
		}
		run, err := e.qualifying(ctx, edge.PipelineID, edge.Match, date, func(r *store.Run) (bool, error) {
			rows, err := e.Store.TaskRuns(ctx, r.ID)
			for i := range rows {
				if rows[i].TaskID == edge.TaskID {
					return holds(edge.Type, rowState(&rows[i])), err
				}
			}
			return false, err
		})
		if err != nil {
			return 0, err
		}
		if run != nil {
			held++
		}
	}
	return held, nil
}

// qualifying is the newest ended run of a pipeline that holds, nil when there is none. Backfills do not count.
func (e *Engine) qualifying(ctx context.Context, pipelineID int64, match, date string, hold func(*store.Run) (bool, error)) (*store.Run, error) {
	runs, err := e.Store.History(ctx, pipelineID, gateLooksBack)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		r := &runs[i]
		if !r.Ended() || r.Trigger == store.TriggerBackfill || match == store.MatchSameDate && r.Date != date {
			continue
		}
		ok, err := hold(r)
		if err != nil || ok {
			return r, err
		}
	}
	return nil, nil
}

// runHolds judges a run like a task whose rows are those of all its tasks.
func (e *Engine) runHolds(ctx context.Context, on string, r *store.Run) (bool, error) {
	s := state{status: r.Status}
	if on == store.OnHasData && r.Status == store.Success {
		rows, err := e.Store.TaskRuns(ctx, r.ID)
		if err != nil {
			return false, err
		}
		for i := range rows {
			s.written += rowState(&rows[i]).written
		}
	}
	return holds(on, s), nil
}

func rowState(r *store.TaskRun) state {
	s := state{status: r.Status, reason: r.SkipReason}
	if r.Counts.Written != nil {
		s.written = *r.Counts.Written
	}
	return s
}
