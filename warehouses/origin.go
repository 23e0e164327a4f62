package warehouses

import (
	"context"
	"strconv"
	"strings"
)

// origin is why a statement runs.
type origin struct {
	pipelineRunID, taskRunID int64
	mark                     string
}

type originKey struct{}

// WithOrigin makes every statement that sessions send under this context carry the ids of the task run it belongs to, so
// that the warehouse's own history joins to the audit tables.
func WithOrigin(ctx context.Context, pipelineRunID, taskRunID int64, step string) context.Context {
	o := &origin{pipelineRunID: pipelineRunID, taskRunID: taskRunID}
	o.mark = "etl-craft pipeline_run_id=" + strconv.FormatInt(pipelineRunID, 10) + " task_run_id=" + strconv.FormatInt(taskRunID, 10) +
		" step=" + strings.Map(inComment, step)
	return context.WithValue(ctx, originKey{}, o)
}

// withStep is the origin of ctx at another step; without an origin there is nothing to carry.
func withStep(ctx context.Context, step string) context.Context {
	o, ok := ctx.Value(originKey{}).(*origin)
	if !ok {
		return ctx
	}
	return WithOrigin(ctx, o.pipelineRunID, o.taskRunID, step)
}

// Marked is a statement as a session sends it: behind a comment that says why it runs. Comments in front of a statement
// are kept by the servers where those behind it are cut off with a long text. Outside a task it is the statement alone.
func Marked(ctx context.Context, statement SQL) string {
	o, ok := ctx.Value(originKey{}).(*origin)
	if !ok {
		return string(statement)
	}
	return "/* " + o.mark + " */\n" + string(statement)
}

// Mark is what the comment of Marked says, for warehouses that drop comments but take a tag; "" outside a task.
func Mark(ctx context.Context) string {
	o, ok := ctx.Value(originKey{}).(*origin)
	if !ok {
		return ""
	}
	return o.mark
}

// inComment keeps what can neither end a comment nor begin one in it, and leaves it on one line.
func inComment(r rune) rune {
	if r == '*' || r == '/' || r < ' ' || r == 0x7f {
		return '_'
	}
	return r
}
