package engine

import (
	"context"
	"errors"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// connected finds what only the warehouse knows of pipelines: it plans every task, in transactions that are rolled back,
// and looks into targets. Pipelines that have a FAIL already are left out.
func (e *Engine) connected(ctx context.Context, graphs []*store.Graph, known []fault.Problem) ([]fault.Problem, error) {
	failing := map[string]bool{}
	for _, p := range known {
		if p.Level == fail {
			failing[p.Pipeline] = true
		}
	}
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	var problems []fault.Problem
	for _, g := range graphs {
		if failing[g.Pipeline.Code] || len(g.Tasks) == 0 {
			continue
		}
		order, _ := inOrder(g)
		plans, _, err := e.planOnline(ctx, g, order)
		if err != nil {
			return nil, inPipeline(err, g.Pipeline.Code)
		}
		refused := map[string]bool{}
		for _, p := range plans {
			if p.Error == nil {
				continue
			}
			refused[p.Task] = true
			problem := fault.Problem{Level: fail, Code: fault.Code(p.Error.Code), Pipeline: g.Pipeline.Code, Task: p.Task, Message: p.Error.Message}
			if p.Error.Hint != nil {
				problem.Hint = *p.Error.Hint
			}
			problems = append(problems, problem)
		}
		found, err := e.checkTargets(ctx, g, refused)
		if err != nil {
			return nil, inPipeline(err, g.Pipeline.Code)
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

// checkTargets looks into the targets of tasks, but for those that were refused already.
func (e *Engine) checkTargets(ctx context.Context, g *store.Graph, refused map[string]bool) (problems []fault.Problem, err error) {
	env := e.env()
	session, err := env.Warehouse.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for i := range g.Tasks {
		t := &g.Tasks[i]
		checker, ok := e.handlers[t.Handler].(handlers.TargetChecker)
		if !ok || refused[t.Code] {
			continue
		}
		found, err := checker.CheckTarget(ctx, env, handlerTask(g, t), session)
		if ctx.Err() != nil || fault.Has(err, fault.WarehouseDown) {
			return nil, err
		}
		if err != nil {
			f := fault.As(err)
			found = append(found, fault.Problem{Level: fail, Code: f.Code, Parameter: "TARGET_OBJECT", Message: "the target cannot be read: " + oneLine(f.Message), Hint: f.Hint})
		}
		for _, p := range found {
			p.Pipeline, p.Task = g.Pipeline.Code, t.Code
			problems = append(problems, p)
		}
	}
	return problems, nil
}
