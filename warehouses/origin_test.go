package warehouses

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMarked(t *testing.T) {
	ctx := WithOrigin(context.Background(), 97, 412, "inspect")
	for _, c := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"outside a task", withStep(context.Background(), "insert the batch"), "SELECT 1"},
		{"inspection", ctx, "/* etl-craft pipeline_run_id=97 task_run_id=412 step=inspect */\nSELECT 1"},
		{"a step", withStep(ctx, "insert the batch"), "/* etl-craft pipeline_run_id=97 task_run_id=412 step=insert the batch */\nSELECT 1"},
	} {
		if got := Marked(c.ctx, "SELECT 1"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzMarkedStep: no step name reaches the statement, ends the comment early or leaves it open.
func FuzzMarkedStep(f *testing.F) {
	for _, step := range []string{"*/ DROP TABLE t; /*", "/*", "**//", "a\nb", "a\x00b", "\xff*/", "é 'quoted' \"names\" $$ -- ; \\"} {
		f.Add(step)
	}
	f.Fuzz(func(t *testing.T, step string) {
		got := Marked(WithOrigin(context.Background(), 1, 2, step), "SELECT 1")
		comment, statement, _ := strings.Cut(got, "\n")
		if statement != "SELECT 1" || strings.Count(comment, "*/") != 1 || !strings.HasSuffix(comment, " */") || strings.Count(comment, "/*") != 1 || !utf8.ValidString(comment) || strings.ContainsRune(comment, 0) {
			t.Errorf("step %q became %q", step, got)
		}
	})
}
