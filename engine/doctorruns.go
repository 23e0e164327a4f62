package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
)

// How old something is before doctor tells of it.
const (
	longUnfinished  = 7 * 24 * time.Hour
	longPending     = 24 * time.Hour
	recentlyFailed  = 7 * 24 * time.Hour
	commandToMend   = "etl-craft doctor --fix"
	commandToSettle = "etl-craft reconcile, or etl-craft doctor --fix"
)

// abandonedRuns looks for what processes that died have left in the Engine DB.
func (d *doctor) abandonedRuns(ctx context.Context) {
	if !d.read {
		d.skip(areaAbandoned, d.why, "attempts", "runs", "waits", "notifications", "unfinished runs")
		return
	}
	if d.req.LockerError != nil {
		d.skip(areaAbandoned, "without locks nobody knows which processes live", "attempts", "runs")
	} else {
		d.attempts(ctx)
	}
	d.waits(ctx)
	d.notifications(ctx)
	d.unfinished(ctx)
}

// attempts tells of attempts and runs whose processes are gone; Fix ends and releases them as reconcile does.
func (d *doctor) attempts(ctx context.Context) {
	live, err := d.e.Store.LiveAttempts(ctx, 0)
	if err != nil {
		d.failed(areaAbandoned, "attempts", err)
		return
	}
	owned, err := d.e.Store.OwnedRuns(ctx, 0)
	if err != nil {
		d.failed(areaAbandoned, "runs", err)
		return
	}
	if d.req.Fix {
		d.settle(ctx)
		return
	}
	var dead, ownerless []string
	for _, a := range live {
		gone, err := d.e.gone(ctx, a.OwnerID, a.LeaseExpired)
		if err != nil {
			d.failed(areaAbandoned, "attempts", err)
			return
		}
		if gone {
			dead = append(dead, fmt.Sprintf("attempt %d of %s.%s", a.Number, a.Pipeline, a.Task))
		}
	}
	for _, r := range owned {
		gone, err := d.e.gone(ctx, r.OwnerID, r.LeaseExpired)
		if err != nil {
			d.failed(areaAbandoned, "runs", err)
			return
		}
		if gone {
			ownerless = append(ownerless, fmt.Sprintf("run %d of %s", r.ID, r.PipelineCode))
		}
	}
	d.found("attempts", dead, commandToSettle, "whose process is gone", fmt.Sprintf("%d run, and their processes live", len(live)))
	d.found("runs", ownerless, commandToSettle, "whose process is gone", fmt.Sprintf("%d are worked on, by processes that live", len(owned)))
}

func (d *doctor) settle(ctx context.Context) {
	done := &ReconcileDocument{}
	if err := d.e.loseAll(ctx, 0, done); err != nil {
		d.failed(areaAbandoned, "attempts", err)
		return
	}
	for _, a := range done.Lost {
		d.fixed("ended as LOST: attempt %d of %s.%s", a.Attempt, a.Pipeline, a.Task)
	}
	d.ok(areaAbandoned, "attempts", "%d ended as LOST, %d run", len(done.Lost), len(done.Living))
	if err := d.e.releaseAll(ctx, 0, done); err != nil {
		d.failed(areaAbandoned, "runs", err)
		return
	}
	for _, r := range done.Released {
		d.fixed("released: run %d of %s", r.PipelineRunID, r.Pipeline)
	}
	d.ok(areaAbandoned, "runs", "%d released", len(done.Released))
}

// found warns of things, or says ok when there are none.
func (d *doctor) found(check string, things []string, hint, what, ok string) {
	if len(things) == 0 {
		d.ok(areaAbandoned, check, "%s", ok)
		return
	}
	d.warn(areaAbandoned, check, hint, "%s %s", some(things), what)
}

// waits tells of waits for upstreams that nobody looks after. Those that have run out count for nobody, so Fix ends them;
// any other is continued by the next process that asks.
func (d *doctor) waits(ctx context.Context) {
	waits, err := d.e.Store.StaleWaits(ctx)
	if err != nil {
		d.failed(areaAbandoned, "waits", err)
		return
	}
	var left, continued []string
	for _, w := range waits {
		name := waitName(w)
		if d.req.Fix && w.RanOut {
			forgotten, err := d.e.Store.ForgetWait(ctx, w.GateWait)
			if err != nil {
				d.failed(areaAbandoned, "waits", err)
				return
			}
			if forgotten {
				d.fixed("ended: the wait of %s", name)
				continue
			}
		}
		if !w.RanOut {
			continued = append(continued, name)
			continue
		}
		left = append(left, name)
	}
	if len(continued) > 0 {
		d.warn(areaAbandoned, "waits", "the next etl-craft run of the pipeline goes on with it", "nobody waits at the moment for the upstream of %s", some(continued))
	}
	if len(left) > 0 || len(continued) == 0 {
		d.found("waits", left, commandToMend, "waited for an upstream, and nobody looks after it any more", "none was left")
	}
}

func waitName(w store.StaleWait) string {
	switch {
	case w.RunID == 0:
		return w.Pipeline
	case w.TaskID == 0:
		return fmt.Sprintf("run %d of %s", w.RunID, w.Pipeline)
	}
	return fmt.Sprintf("task %d in run %d of %s", w.TaskID, w.RunID, w.Pipeline)
}

func (d *doctor) notifications(ctx context.Context) {
	undelivered, err := d.e.Store.Undelivered(ctx, longPending, recentlyFailed)
	if err != nil {
		d.failed(areaAbandoned, "notifications", err)
		return
	}
	for _, u := range undelivered {
		what := "could not be delivered"
		if u.Status == store.NotificationPending {
			what = "wait to be delivered"
		}
		d.warn(areaAbandoned, "notifications", "etl-craft notifications --deliver; etl-craft notifications --test "+u.Webhook,
			"%d to %s %s, the oldest of %s UTC", u.Count, u.Webhook, what, u.Oldest.Format("2006-01-02 15:04"))
	}
	if len(undelivered) == 0 {
		d.ok(areaAbandoned, "notifications", "none is late")
	}
}

func (d *doctor) unfinished(ctx context.Context) {
	runs, err := d.e.Store.UnfinishedSince(ctx, longUnfinished)
	if err != nil {
		d.failed(areaAbandoned, "unfinished runs", err)
		return
	}
	for _, r := range runs {
		d.warn(areaAbandoned, "unfinished runs", fmt.Sprintf("etl-craft run --pipeline %s goes on with it, etl-craft cancel --pipeline %s --reason … ends it", r.Pipeline, r.Pipeline),
			"run %d of %s is unfinished since %s", r.ID, r.Pipeline, r.Started.Format(time.DateOnly))
	}
	if len(runs) == 0 {
		d.ok(areaAbandoned, "unfinished runs", "none is older than a week")
	}
}

// dotted is a name with what it belongs to in front.
func dotted(parts ...string) string { return strings.Join(parts, ".") }
