package warehouses

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
)

// Results are the numbers that a plan's steps yielded.
type Results struct {
	Counts  map[Count]int64
	Witness string
}

// Hooks let the caller watch and guard an execution.
type Hooks struct {
	// Started and Done report a step; rows is the count or what the server reports, -1 for nothing.
	Started func(step Step)
	Done    func(step Step, rows int64, took time.Duration)
	// BeforeCommit runs before what makes a change of the target visible: the COMMIT of a transaction, or a statement that
	// commits alone. Its error keeps that from happening.
	BeforeCommit func(ctx context.Context, so Results) error
}

// Execute runs a plan's steps in order. The error names step and SQL. When it returns an error, every transaction but
// one whose COMMIT has an unknown outcome (COMMIT_UNKNOWN) was rolled back, and the steps that clean up have run.
func Execute(ctx context.Context, s Session, p *Plan, h Hooks) (Results, error) {
	res := Results{Counts: map[Count]int64{}}
	for from := 0; from < len(p.Steps); {
		to := from + 1
		for p.Steps[from].Transaction != 0 && to < len(p.Steps) && p.Steps[to].Transaction == p.Steps[from].Transaction {
			to++
		}
		if err := executeGroup(ctx, s, p.Steps[from:to], from, &res, h); err != nil {
			cleanUp(ctx, s, p.Steps[from:], h)
			return res, err
		}
		from = to
	}
	return res, nil
}

// cleanupTime is how long what a failed plan left may take to go.
const cleanupTime = 30 * time.Second

// cleanUp runs on a context of its own, because that of the plan may have ended. What it cannot remove is left to the next
// attempt and to doctor.
func cleanUp(ctx context.Context, s Session, steps []Step, h Hooks) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	for _, step := range steps {
		if !step.Cleanup {
			continue
		}
		h.Started(step)
		start := time.Now()
		if rows, err := s.Exec(withStep(ctx, step.Name), step.SQL); err == nil {
			h.Done(step, rows, time.Since(start))
		}
	}
}

// executeAlone runs a step that commits by itself.
func executeAlone(ctx context.Context, s Session, step Step, offset int, res *Results, h Hooks) error {
	if !step.Writes || step.Prepares {
		return executeStep(ctx, s, step, offset, res, h)
	}
	if err := h.BeforeCommit(ctx, *res); err != nil {
		return err
	}
	err := executeStep(ctx, s, step, offset, res, h)
	if fault.Has(err, fault.WarehouseDown) { // the statement may have come through
		fault.As(err).Code = fault.CommitUnknown
	}
	return err
}

func executeGroup(ctx context.Context, s Session, steps []Step, offset int, res *Results, h Hooks) error {
	if steps[0].Transaction == 0 {
		return executeAlone(ctx, s, steps[0], offset, res, h)
	}
	if err := s.Begin(withStep(ctx, "begin")); err != nil {
		return err
	}
	writes := false
	for i, step := range steps {
		if err := executeStep(ctx, s, step, offset+i, res, h); err != nil {
			return rollBack(s, err)
		}
		writes = writes || step.Writes
	}
	if writes {
		if err := h.BeforeCommit(ctx, *res); err != nil {
			return rollBack(s, err)
		}
	}
	faultpoint.Hit("before commit")
	err := s.Commit(withStep(ctx, "commit"))
	if err != nil {
		e := fault.As(err)
		e.Step = "commit"
		if !fault.Has(err, fault.CommitUnknown) {
			return rollBack(s, e)
		}
		return e
	}
	faultpoint.Hit("after commit")
	return nil
}

func rollBack(s Session, err error) error {
	if rollback := s.Rollback(); rollback != nil {
		return errors.Join(err, rollback)
	}
	return err
}

func executeStep(ctx context.Context, s Session, step Step, index int, res *Results, h Hooks) error {
	if len(step.OnlyIf) > 0 && res.sum(step.OnlyIf) == 0 {
		return nil
	}
	faultpoint.Hit(fmt.Sprintf("before step %d", index+1))
	h.Started(step)
	start := time.Now()
	rows, err := runStep(withStep(ctx, step.Name), s, step, res)
	if err != nil {
		e := fault.As(err)
		e.Step, e.SQL = step.Name, string(step.SQL)
		return e
	}
	h.Done(step, rows, time.Since(start))
	faultpoint.Hit(fmt.Sprintf("after step %d", index+1))
	return nil
}

func runStep(ctx context.Context, s Session, step Step, res *Results) (int64, error) {
	if step.Counts == "" && step.Guard == nil && step.Witness == "" {
		rows, err := s.Exec(ctx, step.SQL)
		if err == nil && len(step.Changes) > 0 && rows >= 0 {
			err = step.changed(rows, res.sum(step.Changes), s.Facts().Version)
		}
		return rows, err
	}
	n, err := s.Int(ctx, step.SQL)
	if err != nil {
		return 0, err
	}
	if step.Counts != "" {
		res.Counts[step.Counts] = n
	}
	if step.Witness != "" {
		res.Witness = fmt.Sprintf(step.Witness, n)
	}
	if step.Guard != nil && n != 0 {
		return n, step.Guard.failure(ctx, s, n)
	}
	return n, nil
}

func (r *Results) sum(counts []Count) (sum int64) {
	for _, c := range counts {
		sum += r.Counts[c]
	}
	return sum
}

// changed compares the rows that the server says it changed with those that were planned.
func (s Step) changed(rows, planned int64, version string) error {
	switch {
	case rows == planned:
		return nil
	case rows == 0:
		e := fault.New(fault.WriteConflict, "somebody else has written the target meanwhile, so nothing was changed")
		e.Retryable = true
		return e
	}
	return fault.New(fault.StatementFailed, "the server (version %s) changed %d row(s), and %d were to be changed", version, rows, planned).
		WithHint("compare the target's rows of this task run with the SELECT: the server has a defect, or somebody else writes the target")
}

const samples = 5

func (g *Guard) failure(ctx context.Context, s Session, n int64) error {
	e := fault.New(g.Code, g.Message, n).WithHint("%s", g.Hint)
	if g.Sample == "" {
		return e
	}
	rows, err := s.Rows(ctx, g.Sample, samples)
	if err != nil {
		return errors.Join(e, err)
	}
	shown := make([]string, len(rows))
	for i, r := range rows {
		shown[i] = "(" + strings.Join(r, ", ") + ")"
	}
	e.Message += ": " + strings.Join(shown, ", ")
	if n > int64(len(rows)) {
		e.Message += ", …"
	}
	return e
}
