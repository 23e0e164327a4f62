package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
	"github.com/etl-craft/etl-craft/internal/shell"
	"github.com/etl-craft/etl-craft/locks"
)

// longestBackfill is how many days one backfill may have.
const longestBackfill = 366

// noGates is why a backfill's gates are not asked.
const noGates = "a backfill asks no gates"

// BackfillDocument is etl-craft/backfill/1.
type BackfillDocument struct {
	Schema    string         `json:"schema"`
	Pipeline  string         `json:"pipeline"`
	FirstDate string         `json:"first_date"`
	LastDate  string         `json:"last_date"`
	Runs      []*RunDocument `json:"runs"`       // one per day, the oldest first, days that were done before included
	StoppedAt *string        `json:"stopped_at"` // the date whose run did not end well
}

func (r *RunRequest) checkBackfill() error {
	for flag, given := range map[string]bool{
		"--task": r.Task != "", "--run-id": r.RunID != 0, "--run-key": r.RunKey != "", "--run-date": r.RunDate != "",
	} {
		if given {
			return fault.New(fault.Usage, "--backfill excludes %s", flag)
		}
	}
	_, err := daysOf(r.Backfill)
	return err
}

// daysOf lists the dates of A:B, the oldest first.
func daysOf(dates string) ([]string, error) {
	a, b, _ := strings.Cut(dates, ":")
	first, err := time.Parse(time.DateOnly, a)
	last, errLast := time.Parse(time.DateOnly, b)
	if err := errors.Join(err, errLast); err != nil {
		return nil, fault.New(fault.Usage, "--backfill %q is not two dates", dates).WithHint("write it as 2026-09-01:2026-09-30; both days are included")
	}
	if last.Before(first) {
		return nil, fault.New(fault.Usage, "--backfill %s ends before it begins", dates).WithHint("--backfill %s:%s", b, a)
	}
	var days []string
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		if len(days) == longestBackfill {
			return nil, fault.New(fault.Usage, "--backfill %s has more than %d days", dates, longestBackfill).
				WithHint("--backfill %s:%s first", a, days[longestBackfill-1])
		}
		days = append(days, day.Format(time.DateOnly))
	}
	return days, nil
}

// Backfill runs a pipeline once for each day of req.Backfill, the oldest first, and stops at the first that does not end
// SUCCESS or SKIPPED; the error then comes together with the document, and its hint is the command that goes on. A backfill
// that was stopped, interrupted or killed goes on where it was; one that is complete is done anew.
func (e *Engine) Backfill(ctx context.Context, req RunRequest) (*BackfillDocument, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	days, err := daysOf(req.Backfill)
	if err != nil {
		return nil, err
	}
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return nil, err
	}
	arguments, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	doc := &BackfillDocument{
		Schema: "etl-craft/backfill/1", Pipeline: g.Pipeline.Code, FirstDate: days[0], LastDate: days[len(days)-1], Runs: []*RunDocument{},
	}
	ctx = findingRun(ctx)
	err = e.audited(ctx, store.ActionRecord{Command: "run", Arguments: string(arguments), PipelineID: g.Pipeline.ID}, func() error {
		err := e.backfill(ctx, g, req, days, doc)
		if e.stopped(ctx) && len(doc.Runs) == 0 && errors.Is(err, context.Canceled) { // before its first day
			err = goingOn(interrupted(req.Pipeline), req, days[0], days)
		}
		return err
	})
	if err != nil && doc.StoppedAt == nil {
		doc = nil
	}
	return doc, inPipeline(err, g.Pipeline.Code)
}

func (e *Engine) backfill(ctx context.Context, g *store.Graph, req RunRequest, days []string, doc *BackfillDocument) error {
	if e.remote() {
		return req.refuseRemote()
	}
	lock, err := e.onlyBackfill(ctx, g)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	s, err := e.seriesOf(ctx, g, days)
	if err != nil {
		return err
	}
	for _, day := range days {
		g, err = e.Store.Graph(ctx, req.Pipeline)
		if e.stopped(ctx) {
			return goingOn(interrupted(req.Pipeline), req, day, days)
		}
		if err != nil {
			return err
		}
		if g.PausedBy != "" {
			code := fault.RunUnfinished
			if day == days[0] {
				code = fault.Paused
			}
			return goingOn(fault.New(code, "pipeline %s is paused by %s: %s", g.Pipeline.Code, g.PausedBy, g.PauseWhy).WithHint(resumeFirst+"%s", req.Pipeline), req, day, days)
		}
		c := choice{run: s.runs[day], named: true, key: s.key(day), date: day, trigger: store.TriggerBackfill, reason: req.Reason, bypass: noGates}
		var run *RunDocument
		if c.run != nil && wentWell(c.run.Status) {
			run, err = e.document(ctx, c.run.ID)
		} else {
			run, err = e.carryOut(ctx, g, c)
		}
		if err != nil {
			return e.stoppedAt(ctx, g, req, day, days, c, run, err, doc)
		}
		doc.Runs = append(doc.Runs, run)
		e.deliverSoon(ctx)
		faultpoint.Hit("after a day")
	}
	return nil
}

// onlyBackfill takes the lock that keeps two processes from carrying out backfills of one pipeline in turns. RUN_OWNED names
// the one that has it.
func (e *Engine) onlyBackfill(ctx context.Context, g *store.Graph) (locks.Lock, error) {
	key := locks.BackfillKey(e.Store.Backend().Schema, g.Pipeline.Code)
	me := locks.Holder{What: "backfill of pipeline " + g.Pipeline.Code, Pipeline: g.Pipeline.Code}
	for until := time.Now().Add(serverNotices); ; {
		lock, err := e.Locker.TryLock(ctx, key, me)
		if err != nil || lock != nil {
			return lock, err
		}
		by, err := e.holderOf(ctx, me.What)
		if err != nil {
			return nil, err
		}
		if by != nil && !(by.Host == e.host && noProcess(by.PID)) {
			return nil, fault.New(fault.RunOwned, "a backfill of pipeline %s is under way, by process %d on host %s since %s", g.Pipeline.Code,
				by.PID, by.Host, by.Since.UTC().Format("2006-01-02 15:04:05 UTC")).
				WithHint("wait until it is done: etl-craft status --pipeline %s", g.Pipeline.Code)
		}
		if time.Now().After(until) {
			return nil, fault.New(fault.RunOwned, "a backfill of pipeline %s is under way", g.Pipeline.Code).WithHint("etl-craft locks")
		}
		select { // the holder has just gone, or died
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// lockPoll is the time between two tries to get a lock that a dead process held.
const lockPoll = 50 * time.Millisecond

// holderOf is who holds the lock on something, nil when nobody does.
func (e *Engine) holderOf(ctx context.Context, what string) (*locks.Holder, error) {
	held, err := e.Locker.Held(ctx)
	for i := range held {
		if held[i].What == what {
			return &held[i], nil
		}
	}
	return nil, err
}

func wentWell(status string) bool { return status == store.Success || status == store.Skipped }

// stoppedAt completes the document and the error of a backfill that ends before its last day.
func (e *Engine) stoppedAt(ctx context.Context, g *store.Graph, req RunRequest, day string, days []string, c choice, run *RunDocument, err error, doc *BackfillDocument) error {
	durable := context.WithoutCancel(ctx)
	if e.stopped(ctx) && (errors.Is(err, context.Canceled) || fault.Has(err, fault.WarehouseDown)) {
		err = interrupted(g.Pipeline.Code)
	}
	if run == nil {
		var readErr error
		if run, readErr = e.cancelledDay(durable, g, c); readErr != nil {
			return errors.Join(err, readErr)
		}
	}
	if run == nil {
		if f := fault.As(err); f.Code == fault.Interrupted || f.Code == fault.RunUnfinished || f.Hint == "" {
			return goingOn(err, req, day, days)
		}
		return err
	}
	doc.Runs, doc.StoppedAt = append(doc.Runs, run), &day
	stop := *fault.As(err)
	stop.Message = fmt.Sprintf("the backfill stopped at %s: %s", day, fault.As(err).Message)
	return goingOn(&stop, req, day, days)
}

// cancelledDay is the run of a day if somebody has cancelled it meanwhile, nil otherwise.
func (e *Engine) cancelledDay(ctx context.Context, g *store.Graph, c choice) (*RunDocument, error) {
	run, err := e.Store.RunByKey(ctx, g.Pipeline.ID, c.key)
	if c.run != nil {
		run, err = e.Store.RunByID(ctx, c.run.ID)
	}
	if err != nil || run == nil || run.Status != store.Cancelled {
		return nil, err
	}
	return e.document(ctx, run.ID)
}

// resumeFirst begins the hint of an error that says that the pipeline is paused.
const resumeFirst = "etl-craft resume --pipeline "

// goingOn gives an error the command that goes on with the backfill.
func goingOn(err error, req RunRequest, day string, days []string) error {
	first := ""
	if strings.HasPrefix(fault.As(err).Hint, resumeFirst) {
		first = resumeFirst + req.Pipeline + " && "
	}
	return fault.As(err).WithHint("%setl-craft run --pipeline %s --backfill %s:%s --reason %s", first, req.Pipeline, day, days[len(days)-1], shell.Quoted(req.Reason))
}

// series are the runs of one backfill by their dates. Their keys are backfill:<date>:<last date>:<id of the backfill>.
type series struct {
	id, last string
	runs     map[string]*store.Run
}

func (s series) key(day string) string { return fmt.Sprintf("backfill:%s:%s:%s", day, s.last, s.id) }

// mostBackfills is how many runs are looked through for those of the newest backfill.
const mostBackfills = 2 * longestBackfill

// seriesOf is the backfill that these days go on with, a new one without any run otherwise. It refuses when another run
// of the pipeline is unfinished.
func (e *Engine) seriesOf(ctx context.Context, g *store.Graph, days []string) (series, error) {
	s := series{id: uuid.NewString(), last: days[len(days)-1], runs: map[string]*store.Run{}}
	unfinished, err := e.Store.UnfinishedRun(ctx, g.Pipeline.ID)
	if err != nil {
		return s, err
	}
	runs, err := e.Store.Backfills(ctx, g.Pipeline.ID, mostBackfills)
	if err != nil {
		return s, err
	}
	newest, goes := newestSeries(runs)
	goes = goes && newest.goesOnWith(days)
	if unfinished != nil && !(goes && newest.runs[unfinished.Date] != nil && newest.runs[unfinished.Date].ID == unfinished.ID) {
		if unfinished.Trigger == store.TriggerBackfill {
			return s, refuseBackfillRun(unfinished)
		}
		return s, fault.New(fault.RunActive, "run %d of %s of pipeline %s is unfinished, so no backfill starts", unfinished.ID, unfinished.Date, g.Pipeline.Code).
			WithHint("etl-craft run --pipeline %s --run-id %d", g.Pipeline.Code, unfinished.ID)
	}
	if goes {
		s.id, s.runs = newest.id, newest.runs
	}
	return s, nil
}

// newestSeries is the backfill that the newest of runs belongs to, with the date that it was to reach; false without any.
func newestSeries(runs []store.Run) (series, bool) {
	s := series{runs: map[string]*store.Run{}}
	for i := range runs {
		parts := strings.Split(runs[i].Key, ":")
		if len(parts) != 4 {
			continue
		}
		if s.id == "" {
			s.id, s.last = parts[3], parts[2]
		}
		if parts[3] == s.id {
			s.runs[runs[i].Date] = &runs[i]
		}
	}
	return s, s.id != ""
}

// goesOnWith reports whether a request for these days means this backfill: it is not complete, and the days begin among
// its own and include the one it is at. A cancelled day ends a backfill for good.
func (s series) goesOnWith(days []string) bool {
	first, at := "", ""
	for day := range s.runs {
		if first == "" || day < first {
			first = day
		}
		at = max(at, day)
	}
	begin, end := days[0], days[len(days)-1]
	switch status := s.runs[at].Status; {
	case begin < first || status == store.Cancelled:
		return false
	case wentWell(status):
		next := at
		if d, err := time.Parse(time.DateOnly, at); err == nil {
			next = d.AddDate(0, 0, 1).Format(time.DateOnly)
		}
		return at < s.last && begin <= next && next <= end
	}
	return begin <= at && at <= end
}

// refuseBackfillRun says why a call that does not name a backfill's unfinished run does not continue it.
func refuseBackfillRun(run *store.Run) error {
	return fault.New(fault.RunActive, "run %d of %s of pipeline %s is unfinished and belongs to a backfill", run.ID, run.Date, run.PipelineCode).
		WithHint("go on with the backfill, or finish this run alone: etl-craft run --pipeline %s --run-id %d", run.PipelineCode, run.ID)
}
