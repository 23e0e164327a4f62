package simulation_test

import (
	"context"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// handler works on tables that only the case's warehouse has. It keeps to what the engine asks of a handler: it holds its
// target's lock, finds out whether an earlier attempt had committed, and announces its commit.
type handler struct{ p *process }

// execution is an attempt that a handler works on.
type execution struct {
	p       *process
	attempt int64
}

func (h *handler) Name() string             { return "SIM" }
func (h *handler) Params() []handlers.Param { return handlers.CommonParams }

func (h *handler) Check(_ *handlers.Env, t *handlers.Task) []fault.Problem {
	return handlers.CheckParams(handlers.CommonParams, t.Params, "", nil)
}

func (h *handler) ReportsRows(*handlers.Task) bool { return true }

func (h *handler) Plan(context.Context, *handlers.Env, *handlers.Task, *handlers.Dry) (*warehouses.Plan, error) {
	return &warehouses.Plan{}, nil
}

func (h *handler) Run(ctx context.Context, _ *handlers.Env, a *handlers.Attempt) (result handlers.Result, err error) {
	w := h.p.w
	x := &execution{h.p, a.AttemptID}
	if !h.begin(x, a) {
		return result, errDead
	}
	r := w.draw("attempt", a.TaskRunID, int64(a.Number))
	defer func() {
		if ctx.Err() != nil { // until the statement is gone
			_ = h.p.wait(context.Background(), between(r, time.Millisecond, 300*time.Millisecond), uint64(a.AttemptID))
		}
		h.end(x, a)
	}()
	if target := a.Params["X_TARGET"]; target != "" {
		if err := a.Hold(ctx, locks.TargetKey("simulation", target), locks.Holder{What: "target " + target}); err != nil {
			return result, err
		}
	}
	before, err := h.settle(ctx, a)
	if err != nil {
		return result, err
	}
	work := between(r, 50*time.Millisecond, 6*time.Second)
	if r.IntN(12) == 0 {
		work = between(r, 6*time.Second, 30*time.Second)
	}
	outcome := r.IntN(100)
	work, outcome = directed(a, work, outcome)
	if err := h.p.wait(ctx, work, uint64(a.AttemptID)); err != nil {
		return result, err
	}
	switch {
	case outcome < deadlock:
		failed := fault.New(fault.StatementFailed, "a deadlock")
		failed.Retryable = true
		return result, failed
	case outcome < division:
		return result, fault.New(fault.StatementFailed, "a division by zero")
	case outcome < defect:
		panic("a defect")
	}
	rows := int64(r.IntN(3)) // 0 is an empty result
	counts := store.Counts{Written: &rows, Insert: &rows}
	if err := a.Advance(ctx, store.Progress{Phase: store.PhaseCommitting, Planned: counts, Witness: "rows"}); err != nil {
		return result, err
	}
	h.commit(x, a)
	if outcome < unknown {
		return result, fault.New(fault.CommitUnknown, "the reply to COMMIT was lost")
	}
	if err := h.p.wait(context.Background(), between(r, time.Millisecond, time.Second), uint64(a.AttemptID)); err != nil {
		return result, err
	}
	total := rows + before
	return handlers.Result{Counts: counts, TaskCounts: store.Counts{Written: &total, Insert: &total}}, nil
}

// What an attempt comes to, by a number below 100: below the first it fails and may be tried again, and so on; success is the
// rest.
const (
	deadlock = 14
	division = 22
	defect   = 23
	unknown  = 27 // whether it committed
)

// directed is what X_WORK and X_OUTCOME say of an attempt. The last of several outcomes holds for all later attempts too.
func directed(a *handlers.Attempt, work time.Duration, outcome int) (time.Duration, int) {
	if text, ok := a.Params["X_WORK"]; ok {
		work, _ = time.ParseDuration(text)
	}
	if text, ok := a.Params["X_OUTCOME"]; ok {
		all := strings.Split(text, " ")
		outcome = map[string]int{"deadlock": deadlock - 1, "division": division - 1, "success": 99}[all[min(a.Number, len(all))-1]]
	}
	return work, outcome
}

// settle says of earlier attempts whether they had committed, and how many rows those wrote.
func (h *handler) settle(ctx context.Context, a *handlers.Attempt) (rows int64, err error) {
	for _, earlier := range a.Earlier {
		if earlier.Phase != store.PhaseCommitting || earlier.Status == store.Success {
			continue
		}
		h.p.w.mu.Lock()
		committed := h.p.w.committed[earlier.ID]
		h.p.w.mu.Unlock()
		if earlier.Committed == nil {
			if err := a.Settle(ctx, earlier, committed); err != nil {
				return 0, err
			}
		}
		if committed && earlier.Planned.Written != nil {
			rows += *earlier.Planned.Written
		}
	}
	return rows, nil
}

func (h *handler) begin(x *execution, a *handlers.Attempt) bool {
	w := h.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.p.isDead() {
		return false
	}
	others := w.executing[a.TaskRunID]
	w.executing[a.TaskRunID] = append(others[:len(others):len(others)], x)
	w.happened(event{by: h.p, what: "executes", run: a.TaskRunID, x: x, with: others})
	return true
}

func (h *handler) end(x *execution, a *handlers.Attempt) {
	w := h.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []*execution
	for _, other := range w.executing[a.TaskRunID] {
		if other != x {
			left = append(left, other)
		}
	}
	w.executing[a.TaskRunID] = left
	if !h.p.isDead() {
		w.happened(event{by: h.p, what: "ends", run: a.TaskRunID, x: x})
	}
}

func (h *handler) commit(x *execution, a *handlers.Attempt) {
	w := h.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.p.isDead() {
		return
	}
	w.committed[a.AttemptID] = true
	w.happened(event{by: h.p, what: "commits", run: a.TaskRunID, x: x})
}

// farWarehouse takes its time to answer, or does not answer at all.
type farWarehouse struct {
	warehouses.Warehouse
	p *process
}

func (p *process) openWarehouse(context.Context) (warehouses.Warehouse, error) {
	return farWarehouse{p: p}, nil
}

func (f farWarehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	r := f.p.w.draw("warehouse of " + f.p.name)
	way := between(r, 10*time.Millisecond, 400*time.Millisecond)
	if r.IntN(5) == 0 {
		way = between(r, time.Second, 20*time.Second)
	}
	if f.p.fate.warehouse > 0 {
		way = f.p.fate.warehouse
	}
	if err := f.p.wait(ctx, way, 0); err != nil {
		return warehouses.Facts{}, err
	}
	if f.p.fate.noWarehouse {
		return warehouses.Facts{}, fault.New(fault.WarehouseDown, "the warehouse does not answer")
	}
	return warehouses.Facts{Identity: "simulation", Database: "dw", User: "etl", Version: "1"}, nil
}

func (f farWarehouse) Close() error { return nil }
