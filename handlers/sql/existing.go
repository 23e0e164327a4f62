package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// CheckTarget implements handlers.TargetChecker. It reads the target of a merge: keys that are there more than once, which
// every merge would change together, and keys without an index where the warehouse needs one.
func (Handler) CheckTarget(ctx context.Context, env *handlers.Env, task *handlers.Task, s warehouses.Session) ([]fault.Problem, error) {
	sp, problems := parse(env, task)
	if len(problems) > 0 || !slices.Contains(merges, sp.Action) {
		return nil, nil
	}
	if sp.Target.Database == "" {
		sp.Target.Database = s.Facts().Database
	}
	table, err := s.Table(ctx, sp.Target)
	if err != nil || table == nil {
		return nil, err
	}
	for _, c := range append([]string{activeFlag}, sp.Keys...) {
		if table.Column(c) == nil && (c != activeFlag || sp.Action == SCD2Merge) {
			return nil, nil // which planning it refuses
		}
	}
	d := env.Dialect
	f := frame{Target: d.Table(sp.Target), Keys: d.Idents(sp.Keys)}
	if sp.Action == SCD2Merge {
		f.Where = d.Ident(d.FoldName(activeFlag)) + " = 'Y'"
	}
	keys := strings.Join(sp.Keys, ", ")
	n, err := s.Int(ctx, d.Render("active_repeated", f))
	if err != nil {
		return nil, err
	}
	if n > 0 {
		samples, err := s.Rows(ctx, d.Render("active_repeated_sample", f), sampleKeys)
		if err != nil {
			return nil, err
		}
		problems = append(problems, fault.Problem{Level: "FAIL", Code: fault.TargetKeysRepeated, Parameter: "MERGE_KEY",
			Message: fmt.Sprintf("%s has more than one active row for %d merge key(s) (%s), such as %s", sp.Target, n, keys, sampleText(samples)),
			Hint:    "a merge changes all of them: find out who wrote them, and delete all but one of each"})
	}
	if !d.IndexesStage {
		return problems, nil
	}
	f = frame{Plain: d.Text(string(d.Table(sp.Target)))}
	for _, k := range sp.Keys {
		f.Keys = append(f.Keys, d.Text(k))
	}
	if n, err = s.Int(ctx, d.Render("unindexed_keys", f)); err != nil || n == 0 {
		return problems, err
	}
	return append(problems, fault.Problem{Level: "WARN", Code: fault.MergeKeyUnindexed, Parameter: "MERGE_KEY", Message: fmt.Sprintf("no index of %s begins with a merge key (%s)", sp.Target, keys),
		Hint: fmt.Sprintf("CREATE INDEX ON %s (%s)", d.Table(sp.Target), warehouses.Join(d.Idents(sp.Keys), ", "))}), nil
}

// sampleKeys is how many keys are shown of those that stand more than once.
const sampleKeys = 3

func sampleText(rows [][]string) string {
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = "(" + strings.Join(r, ", ") + ")"
	}
	return strings.Join(texts, ", ")
}
