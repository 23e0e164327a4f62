package engine

import (
	"context"
	"errors"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Plan shows the statements that each task would run now, and writes nothing: everything it does in the warehouse is
// rolled back. Tasks that would be refused are in the document with their error, and the first such error is returned
// beside it.
func (e *Engine) Plan(ctx context.Context, req PlanRequest) (*PlanDocument, error) {
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return nil, err
	}
	order, _ := inOrder(g)
	if req.Task != "" {
		task, err := findTask(g, req.Task)
		if err != nil {
			return nil, err
		}
		order = before(g, order, task)
	}
	if err := invalid(g.Pipeline.Code, e.problems([]*store.Graph{g}, false)); err != nil {
		return nil, err
	}
	doc := &PlanDocument{Schema: "etl-craft/plan/1", Pipeline: g.Pipeline.Code, Tasks: []PlanTask{}}
	var refused error
	if req.Offline {
		for _, t := range order {
			doc.Tasks = append(doc.Tasks, planTask(t, &warehouses.Plan{BlockedBy: "offline"}, nil))
		}
	} else {
		var plans []PlanTask
		if plans, refused, err = e.planOnline(ctx, g, order, nil); err != nil {
			return nil, inPipeline(err, g.Pipeline.Code)
		}
		doc.Tasks = append(doc.Tasks, plans...)
	}
	if req.Task != "" {
		doc.Tasks = doc.Tasks[len(doc.Tasks)-1:]
		if doc.Tasks[0].Error == nil {
			refused = nil // what is wrong with earlier tasks shows in blocked_by, if it matters
		}
	}
	return doc, inPipeline(refused, g.Pipeline.Code)
}

// before keeps the tasks that task waits for, directly or not, and the task itself, which comes last.
func before(g *store.Graph, order []*store.Task, task *store.Task) []*store.Task {
	states := make(map[int64]state, len(g.Tasks))
	for i := range g.Tasks {
		states[g.Tasks[i].ID] = state{status: store.Pending}
	}
	ancestors := newFlow(g.Tasks, states).ancestors(task.ID)
	var kept []*store.Task
	for _, t := range order {
		if ancestors[t.ID] {
			kept = append(kept, t)
		}
	}
	return append(kept, task)
}

// planOnline plans the tasks one after the other in a transaction that is rolled back, so that each sees the tables that
// earlier ones would make. Tasks in faulty have no plan, and block those behind them. refused is the first task's error; err is
// about the warehouse itself.
func (e *Engine) planOnline(ctx context.Context, g *store.Graph, order []*store.Task, faulty map[string]bool) (plans []PlanTask, refused, err error) {
	if err := e.connect(ctx); err != nil {
		return nil, nil, err
	}
	today, err := e.today(ctx)
	if err != nil {
		return nil, nil, err
	}
	date, err := time.Parse(time.DateOnly, today)
	if err != nil {
		return nil, nil, err
	}
	env := e.env()
	session, err := env.Warehouse.Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, session.Rollback(), session.Close()) }()
	if err := session.Begin(ctx); err != nil {
		return nil, nil, err
	}
	dry := handlers.NewDry(session, date)
	plan := func(t *store.Task) (*warehouses.Plan, error) {
		return e.handlers[t.Handler].Plan(ctx, env, handlerTask(g, t), dry)
	}
	var made []*store.Task // their tables look in the session as they would leave them
	for _, t := range order {
		if faulty[t.Code] {
			dry.LeaveOpen(qualified(env, t.Params["TARGET_OBJECT"]), t.Code)
			continue
		}
		p, failed := plan(t)
		if ctx.Err() != nil || fault.Has(failed, fault.WarehouseDown) {
			return nil, nil, failed
		}
		if failed == nil && p.BlockedBy == "" {
			made = append(made, t)
		} else if err := dry.Again(ctx); err != nil {
			return nil, nil, err
		} else if err := repeat(made, plan); err != nil {
			return nil, nil, err
		}
		if failed != nil || p.BlockedBy != "" || p.Open {
			dry.LeaveOpen(qualified(env, t.Params["TARGET_OBJECT"]), t.Code)
		}
		if failed != nil && refused == nil {
			known := fault.As(failed)
			known.Task = t.Code
			refused = known
		}
		plans = append(plans, planTask(t, p, failed))
	}
	return plans, refused, nil
}

func repeat(made []*store.Task, plan func(*store.Task) (*warehouses.Plan, error)) error {
	for _, t := range made {
		if _, err := plan(t); err != nil {
			return err
		}
	}
	return nil
}

func planTask(t *store.Task, p *warehouses.Plan, failed error) PlanTask {
	task := PlanTask{
		Task: t.Code, Handler: t.Handler, Action: orNil(t.Params["SQL_ACTION"]), Target: orNil(t.Params["TARGET_OBJECT"]),
		Notes: []string{}, Steps: []warehouses.JSONStep{},
	}
	if failed != nil {
		f := fault.As(failed)
		task.Error = &ErrorDocument{Code: string(f.Code), Message: oneLine(f.Message), Step: orNil(f.Step), Hint: orNil(f.Hint)}
		return task
	}
	if p.Target != "" {
		task.Target = orNil(p.Target)
	}
	task.Complete, task.BlockedBy = p.BlockedBy == "", orNil(p.BlockedBy)
	task.Notes, task.Steps, task.Plan = append(task.Notes, p.Notes...), p.JSON(), p
	return task
}
