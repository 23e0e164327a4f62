package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/project"
)

// Apply makes the rows of the pipelines that files declare equal to the files. Any FAIL, in the files or in the result,
// changes nothing and is METADATA_INVALID with all problems. With dryRun nothing is changed either way.
func (e *Engine) Apply(ctx context.Context, dryRun bool) (*ApplyDocument, error) {
	if dryRun {
		return e.apply(ctx, true)
	}
	var doc *ApplyDocument
	err := e.audited(ctx, store.ActionRecord{Command: "apply", Arguments: "{}"}, func() (err error) {
		doc, err = e.apply(ctx, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	return doc, nil
}

func (e *Engine) apply(ctx context.Context, dryRun bool) (*ApplyDocument, error) {
	desired, problems := project.Load(e.Config.Dir)
	if len(problems) > 0 {
		_, found := e.fileProblems(desired)
		return nil, invalid("", append(problems, e.located(found)...))
	}
	checked := false
	report, err := e.Store.ApplyMetadata(ctx, e.Actor, desired, func(graphs []*store.Graph) error {
		checked = true
		if err := invalid("", e.located(e.problems(graphs, true))); err != nil {
			return err
		}
		if dryRun {
			return store.ErrDryRun
		}
		return nil
	})
	if err != nil {
		var known *fault.Error
		if errors.As(err, &known) {
			if !checked && known.Code == fault.MetadataInvalid { // the files' other problems are worth telling too
				others := slices.DeleteFunc(e.problems(graphsOf(desired), true), func(p fault.Problem) bool { return p.Code == fault.DependencyInvalid })
				return nil, invalid("", e.located(append(known.Problems, others...)))
			}
			e.located(known.Problems)
		}
		return nil, err
	}
	return applyDocument(report, dryRun), nil
}

// located gives problems their places in the files.
func (e *Engine) located(problems []fault.Problem) []fault.Problem {
	project.Locate(e.Config.Dir, problems)
	return problems
}

func applyDocument(report store.ApplyReport, dryRun bool) *ApplyDocument {
	doc := &ApplyDocument{Schema: "etl-craft/apply/1", DryRun: dryRun, Changes: make([]ApplyChange, len(report.Changes))}
	for i, c := range report.Changes {
		change := ApplyChange{Operation: c.Operation, Object: c.Object, Key: c.Key, Columns: make([]ColumnChange, len(c.Columns))}
		for j, column := range c.Columns {
			change.Columns[j] = ColumnChange{Column: column.Column, Old: orNil(column.Old), New: orNil(column.New)}
		}
		doc.Changes[i] = change
	}
	return doc
}
