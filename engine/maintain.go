package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
	"github.com/etl-craft/etl-craft/internal/nearest"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// MaintenanceRequest says which targets to look after.
type MaintenanceRequest struct {
	Target string `json:"target,omitempty"` // as TARGET_OBJECT names it, "" for all
	Action string `json:"action,omitempty"` // of UpgradeTargets: only targets that have a writer with this action
	DryRun bool   `json:"dry_run,omitempty"`
}

// What became of a target.
const (
	TargetDone     = "DONE"
	TargetRecorded = "RECORDED" // its rows were right already, and the Engine DB knows it now
	TargetLeft     = "LEFT"     // nothing was to be done
	TargetMissing  = "MISSING"  // there is no such table yet
	TargetFailed   = "FAILED"
	TargetNotTried = "NOT_TRIED" // the command was interrupted before
)

// MaintenanceDocument is etl-craft/rehash/1 or etl-craft/upgrade-targets/1.
type MaintenanceDocument struct {
	Schema  string           `json:"schema"`
	DryRun  bool             `json:"dry_run"`
	Targets []TargetDocument `json:"targets"` // by name
	Done    int              `json:"done"`
	Left    int              `json:"left"` // RECORDED and MISSING ones too
	Failed  int              `json:"failed"`
}

// TargetDocument is one target of a MaintenanceDocument.
type TargetDocument struct {
	Target  string                `json:"target"`
	Tasks   []string              `json:"tasks"`  // PIPELINE.TASK that name it
	Status  string                `json:"status"` // with DryRun, what it would become
	Rows    *int64                `json:"rows"`   // of rehash, as the next two
	Changed *int64                `json:"changed"`
	Compare []string              `json:"compare_columns"`
	Added   []string              `json:"added"` // columns, of upgrade-targets
	Steps   []warehouses.JSONStep `json:"steps"`
	Error   *ErrorDocument        `json:"error"`

	Plan *warehouses.Plan `json:"-"`
}

// Rehash makes the change hashes of a target those that its merge tasks expect, and records it.
func (e *Engine) Rehash(ctx context.Context, req MaintenanceRequest, progress func(string)) (*MaintenanceDocument, error) {
	return e.maintain(ctx, "rehash", req, progress, handlers.Maintainer.Rehash)
}

// UpgradeTargets adds the columns to targets that every table of etl-craft has by now. When a target fails, the others are
// still done, and the first error comes beside the document.
func (e *Engine) UpgradeTargets(ctx context.Context, req MaintenanceRequest, progress func(string)) (*MaintenanceDocument, error) {
	return e.maintain(ctx, "upgrade-targets", req, progress, handlers.Maintainer.Upgrade)
}

type upkeep func(handlers.Maintainer, context.Context, *handlers.Env, handlers.Target, *handlers.Maintenance) (*handlers.Maintained, error)

func (e *Engine) maintain(ctx context.Context, command string, req MaintenanceRequest, progress func(string), do upkeep) (doc *MaintenanceDocument, err error) {
	arguments, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	err = e.audited(ctx, store.ActionRecord{Command: command, Arguments: string(arguments)}, func() error {
		doc, err = e.maintainAll(ctx, command, req, progress, do)
		return err
	})
	return doc, err
}

// maintained is a target and the handler that looks after it.
type maintained struct {
	handlers.Target
	by handlers.Maintainer
}

func (e *Engine) maintainAll(ctx context.Context, command string, req MaintenanceRequest, progress func(string), do upkeep) (*MaintenanceDocument, error) {
	graphs, err := e.Store.Graphs(ctx)
	if err != nil {
		return nil, err
	}
	targets, err := e.targets(graphs, req)
	if err != nil {
		return nil, err
	}
	if err := e.contradictions(graphs, targets); err != nil {
		return nil, err
	}
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	if targets, err = e.targets(graphs, req); err != nil { // the default database may have another name than configured
		return nil, err
	}
	doc := &MaintenanceDocument{Schema: "etl-craft/" + command + "/1", DryRun: req.DryRun, Targets: []TargetDocument{}}
	var first error
	for i, t := range targets {
		if len(targets) > 1 {
			progress(fmt.Sprintf("%d of %d  %s", i+1, len(targets), t.Name))
		}
		var d TargetDocument
		if e.stopped(ctx) {
			d = targetDocument(t.Target)
			d.Status = TargetNotTried
		} else {
			d, err = e.maintainOne(ctx, t, req.DryRun, do)
			if first == nil {
				first = err
			}
		}
		switch d.Status {
		case TargetDone:
			doc.Done++
		case TargetFailed, TargetNotTried:
			doc.Failed++
		default:
			doc.Left++
		}
		doc.Targets = append(doc.Targets, d)
	}
	switch {
	case e.stopped(ctx) && doc.Failed > 0:
		return doc, fault.New(fault.Interrupted, "interrupted: %d of %d targets are left to do", doc.Failed, len(targets)).WithHint("the same command again")
	case first != nil && len(targets) > 1:
		return doc, fault.New(fault.TargetsFailed, "%d of %d targets failed, the first: %w", doc.Failed, len(targets), first).
			WithHint("%s", cmp.Or(fault.As(first).Hint, "the same command again, when that is mended"))
	}
	return doc, first
}

// targets are the tables that the request means.
func (e *Engine) targets(graphs []*store.Graph, req MaintenanceRequest) ([]maintained, error) {
	env := e.env()
	byHandler := map[string][]*handlers.Task{}
	for _, g := range graphs {
		for i := range g.Tasks {
			byHandler[g.Tasks[i].Handler] = append(byHandler[g.Tasks[i].Handler], handlerTask(g, &g.Tasks[i]))
		}
	}
	wanted := strings.ToLower(qualified(env, req.Target))
	var all []maintained
	var known []string
	for name, tasks := range byHandler {
		keeper, ok := e.handlers[name].(handlers.Maintainer)
		if !ok {
			continue
		}
		for _, t := range keeper.Targets(env, tasks) {
			known = append(known, t.Name.String())
			if req.Target != "" && t.Name.Key() != wanted || req.Action != "" && !slices.ContainsFunc(t.Tasks, func(task *handlers.Task) bool { return task.Params["SQL_ACTION"] == req.Action }) {
				continue
			}
			all = append(all, maintained{t, keeper})
		}
	}
	slices.SortFunc(all, func(a, b maintained) int { return strings.Compare(a.Name.Key(), b.Name.Key()) })
	if len(all) > 0 || req.Target == "" && req.Action == "" {
		return all, nil
	}
	what := "writes " + req.Target
	if req.Action != "" {
		what += " with " + req.Action
	}
	if req.Target == "" {
		what = "has the action " + req.Action
	}
	missing := fault.New(fault.TargetUnknown, "no active task %s", what)
	if near := nearest.Of(wanted, known); near != "" && req.Target != "" {
		return nil, missing.WithHint("did you mean %s?", near)
	}
	return nil, missing.WithHint("etl-craft list, etl-craft graph --pipeline P")
}

// contradictions refuses before anything is done when tasks that name one of the targets disagree about it, or cannot be
// understood.
func (e *Engine) contradictions(graphs []*store.Graph, targets []maintained) error {
	concerned := map[string]bool{}
	for _, t := range targets {
		for _, task := range t.Tasks {
			concerned[task.PipelineCode+"."+task.Code] = true
		}
	}
	var problems []fault.Problem
	for _, p := range e.problems(graphs, false) {
		about := p.Level == fail && p.Code == fault.WritersDisagree || slices.Contains([]string{"TARGET_OBJECT", "MERGE_COMPARE_COLUMNS", "TABLE_FORMAT"}, p.Parameter)
		if about && concerned[p.Pipeline+"."+p.Task] {
			problems = append(problems, p)
		}
	}
	return invalid("", problems)
}

func targetDocument(t handlers.Target) TargetDocument {
	d := TargetDocument{Target: t.Name.String(), Tasks: []string{}, Compare: []string{}, Added: []string{}, Steps: []warehouses.JSONStep{}}
	for _, task := range t.Tasks {
		d.Tasks = append(d.Tasks, task.PipelineCode+"."+task.Code)
	}
	return d
}

func (e *Engine) maintainOne(ctx context.Context, t maintained, dry bool, do upkeep) (TargetDocument, error) {
	d := targetDocument(t.Target)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var held []locks.Lock
	var watches sync.WaitGroup
	done := make(chan struct{})
	result, err := do(t.by, ctx, e.env(), t.Target, &handlers.Maintenance{
		DryRun: dry, Log: e.Log,
		Hold: func(ctx context.Context, key locks.Key, holder locks.Holder) error {
			lock, err := e.Locker.Lock(ctx, key, holder, e.Config.Orchestration.LockWait)
			if err != nil {
				return err
			}
			held = append(held, lock)
			watches.Go(func() {
				select {
				case <-lock.Lost():
					cancel(fault.New(fault.LockLost, "the lock on %s was lost", holder.What))
				case <-done:
				}
			})
			return nil
		},
		Check: func(ctx context.Context) error {
			for _, lock := range held {
				if err := lock.Check(ctx); err != nil {
					return err
				}
			}
			return nil
		},
		ForgetHash: e.Store.ForgetHash,
		RecordHash: func(ctx context.Context, target store.TargetName, version int, compare string) error {
			faultpoint.Hit("before the hash is recorded")
			defer faultpoint.Hit("after the hash is recorded")
			return e.Store.RecordHash(context.WithoutCancel(ctx), target, version, compare)
		},
	})
	close(done)
	watches.Wait()
	for _, lock := range held {
		err = errors.Join(err, lock.Release())
	}
	if err != nil {
		var lost *fault.Error
		if errors.As(context.Cause(ctx), &lost) {
			err = lost
		}
		f := fault.As(err)
		d.Status = TargetFailed
		d.Error = &ErrorDocument{Code: string(f.Code), Message: oneLine(f.Message), Step: orNil(f.Step), Hint: orNil(f.Hint)}
		return d, err
	}
	d.Status = TargetMissing
	if result.Compare != nil {
		d.Compare = result.Compare
	}
	if result.Plan == nil {
		return d, nil
	}
	d.Plan, d.Steps = result.Plan, result.Plan.JSON()
	d.Added = append(d.Added, result.Columns...)
	if result.Compare != nil {
		d.Rows, d.Changed = &result.Rows, &result.Changed
	}
	switch {
	case result.Changed > 0 || len(result.Columns) > 0:
		d.Status = TargetDone
	case result.Record:
		d.Status = TargetRecorded
	default:
		d.Status = TargetLeft
	}
	return d, nil
}
