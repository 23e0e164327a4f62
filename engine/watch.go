package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// watchEvery is how often a process looks at what operators did to its run and pipeline.
var watchEvery = time.Second

// news is what an operator did since the last look.
type news struct {
	ended   error // why the run goes on no more
	paused  error // why no more tasks start
	changed bool  // tasks were marked or skipped
}

// look reads what operators did. An Engine DB that cannot be reached has no news: what it knows is asked for again.
func (w *work) look(ctx context.Context) news {
	g, err := w.e.Store.Signal(ctx, w.run.ID)
	if err != nil {
		return news{}
	}
	w.noteSLA(ctx, g)
	n := news{ended: w.over(g), changed: g.Intervention != w.seen}
	if n.ended == nil && g.PausedBy != "" {
		n.paused = fault.New(fault.RunUnfinished, "run %d of pipeline %s is left unfinished: the pipeline was paused by %s: %s",
			w.run.ID, w.g.Pipeline.Code, g.PausedBy, g.PauseWhy).
			WithHint("etl-craft resume --pipeline %s && etl-craft run --pipeline %[1]s", w.g.Pipeline.Code)
	}
	return n
}

// over is why the run goes on no more, nil when it does.
func (w *work) over(g store.Signal) error {
	switch g.Status {
	case store.InProgress:
		return nil
	case store.Cancelled:
		return cancelledRun(w.run)
	}
	return fault.New(fault.RunEnded, "run %d was ended %s meanwhile", w.run.ID, g.Status).
		WithHint("etl-craft history --pipeline %s", w.g.Pipeline.Code)
}

func cancelledRun(run *store.Run) error {
	return fault.New(fault.RunCancelled, "run %d of pipeline %s was cancelled", run.ID, run.PipelineCode).
		WithHint("etl-craft history --pipeline %s", run.PipelineCode)
}

// hold reports whether a pause keeps more tasks from starting.
func (w *work) hold(n news) bool {
	if n.paused == nil {
		return false
	}
	if w.paused == nil {
		w.e.Log.Info("the pipeline is paused: no more tasks start, running ones finish", "pipeline", w.g.Pipeline.Code)
	}
	w.paused = n.paused
	return true
}

// refusePaused fails with PAUSED when the pipeline has been paused since its graph was read.
func (e *Engine) refusePaused(ctx context.Context, g *store.Graph) error {
	p, err := e.Store.PauseOf(ctx, g.Pipeline.ID)
	if err != nil || p == nil {
		return err
	}
	return fault.New(fault.Paused, "pipeline %s is paused by %s: %s", g.Pipeline.Code, p.By, p.Reason).
		WithHint("etl-craft resume --pipeline %s", g.Pipeline.Code)
}

// whyEnded says that a run was cancelled where err only says that it has ended.
func (e *Engine) whyEnded(ctx context.Context, run *store.Run, err error) error {
	if !fault.Has(err, fault.RunEnded) {
		return err
	}
	now, readErr := e.Store.RunByID(context.WithoutCancel(ctx), run.ID)
	if readErr != nil || now == nil || now.Status != store.Cancelled {
		return err
	}
	return cancelledRun(now)
}

// reload reads the tasks again after an operator changed some. Those in mine run here, whatever their rows say by now.
func (w *work) reload(ctx context.Context, mine map[int64]bool) error {
	w.e.Log.Info("an operator changed tasks of the run", "pipeline", w.g.Pipeline.Code)
	clear(w.atGate)
	return w.loadBeside(ctx, mine)
}

// watchEnd cancels ctx when the run has been ended.
func (w *work) watchEnd(ctx context.Context, cancel context.CancelCauseFunc) *sync.WaitGroup {
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			g, err := w.e.Store.Signal(ctx, w.run.ID)
			if err != nil {
				continue // an Engine DB that cannot be reached is asked again
			}
			if over := w.over(g); over != nil {
				cancel(over)
				return
			}
			w.noteSLA(ctx, g)
		}
	})
	return &watch
}

// endedBy is why a run was ended while ctx was in use, nil when it was not.
func endedBy(ctx context.Context) error {
	var known *fault.Error
	if errors.As(context.Cause(ctx), &known) && (known.Code == fault.RunCancelled || known.Code == fault.RunEnded) {
		return known
	}
	return nil
}
