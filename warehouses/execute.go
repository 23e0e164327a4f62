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
	// BeforeCommit runs after the last step of a transaction that writes, before its COMMIT; its error rolls back.
	BeforeCommit func(ctx context.Context, so Results) error
}

// Execute runs a plan's steps in order. The error names step and SQL. When it returns an error, every transaction but
// one whose COMMIT has an unknown outcome (COMMIT_UNKNOWN) was rolled back.
func Execute(ctx context.Context, s Session, p *Plan, h Hooks) (Results, error) {
	res := Results{Counts: map[Count]int64{}}
	for from := 0; from < len(p.Steps); {
		to := from + 1
		for p.Steps[from].Transaction != 0 && to < len(p.Steps) && p.Steps[to].Transaction == p.Steps[from].Transaction {
			to++
		}
		if err := executeGroup(ctx, s, p.Steps[from:to], from, &res, h); err != nil {
			return res, err
		}
		from = to
	}
	return res, nil
}

func executeGroup(ctx context.Context, s Session, steps []Step, offset int, res *Results, h Hooks) error {
	if steps[0].Transaction == 0 {
		return executeStep(ctx, s, steps[0], offset, res, h)
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
	if step.OnlyIf != "" && res.Counts[step.OnlyIf] == 0 {
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
		return s.Exec(ctx, step.SQL)
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
