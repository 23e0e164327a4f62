package engine

import (
	"context"
	"errors"
	"maps"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// connected finds what only the warehouse knows of pipelines: it plans every task, in transactions that are rolled back,
// and looks into targets. Tasks that have a FAIL already are left out. It warns of what the warehouse was not asked about.
func (e *Engine) connected(ctx context.Context, graphs []*store.Graph, known []fault.Problem) ([]fault.Problem, error) {
	faulty := map[string]map[string]bool{} // tasks by pipeline
	unread := map[string]bool{}            // pipelines
	for _, p := range known {
		if p.Level != fail {
			continue
		}
		if p.Code == fault.FileInvalid {
			unread[p.Pipeline] = true
		}
		if faulty[p.Pipeline] == nil {
			faulty[p.Pipeline] = map[string]bool{}
		}
		faulty[p.Pipeline][p.Task] = true
	}
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	var problems []fault.Problem
	for _, g := range graphs {
		if len(g.Tasks) == 0 {
			continue
		}
		order, waves := inOrder(g)
		if unread[g.Pipeline.Code] || len(waves) < len(g.Tasks) {
			problems = append(problems, fault.Problem{Level: warn, Code: fault.WarehouseNotAsked, Pipeline: g.Pipeline.Code,
				Message: "the warehouse was not asked about the pipeline, because its tasks or their order are not clear", Hint: "correct what FAILs, then validate again"})
			continue
		}
		found, err := e.connectedPipeline(ctx, g, order, faulty[g.Pipeline.Code])
		if err != nil {
			return nil, inPipeline(err, g.Pipeline.Code)
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

func (e *Engine) connectedPipeline(ctx context.Context, g *store.Graph, order []*store.Task, faulty map[string]bool) ([]fault.Problem, error) {
	plans, _, err := e.planOnline(ctx, g, order, faulty)
	if err != nil {
		return nil, err
	}
	var problems []fault.Problem
	refused := map[string]bool{}
	maps.Copy(refused, faulty)
	for _, p := range plans {
		if p.Error != nil {
			refused[p.Task] = true
			problem := fault.Problem{Level: fail, Code: fault.Code(p.Error.Code), Pipeline: g.Pipeline.Code, Task: p.Task, Message: p.Error.Message}
			if p.Error.Hint != nil {
				problem.Hint = *p.Error.Hint
			}
			problems = append(problems, problem)
			continue
		}
		if p.BlockedBy == nil {
			continue
		}
		hint := "validate again when " + *p.BlockedBy + " has run"
		if refused[*p.BlockedBy] {
			hint = "correct " + *p.BlockedBy + ", then validate again"
		}
		problems = append(problems, fault.Problem{Level: warn, Code: fault.WarehouseNotAsked, Pipeline: g.Pipeline.Code, Task: p.Task,
			Message: "the warehouse was not asked about the task, because it is not known how " + *p.BlockedBy + " leaves a table of it", Hint: hint})
	}
	found, err := e.checkTargets(ctx, g, refused)
	return append(problems, found...), err
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
