package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func runFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Int64Flag{Name: "run-id", Aliases: []string{"pipeline-run-id"}, Usage: "the run with the id `N`"},
		&cli.StringFlag{Name: "run-key", Usage: "the run with the key `KEY`"},
	}
}

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "runs a pipeline, resumes its unfinished run, or runs one of its tasks",
		Description: "etl-craft run --pipeline SALES\netl-craft run --pipeline SALES --run-date 2026-09-01\n" +
			"etl-craft run --pipeline SALES --run-id 97\netl-craft run --pipeline SALES --task load_customers\n" +
			"etl-craft run --pipeline SALES --task load_customers --check-only\n" +
			"etl-craft run --pipeline SALES --run-id 97 --task load_customers --rerun --with-downstream --reason 'source corrected'\n" +
			"etl-craft run --pipeline SALES --run-id 97 --force --reason 'new rates'\n" +
			"etl-craft run --pipeline SALES --backfill 2026-09-01:2026-09-30 --reason 'new column'",
		Flags: append([]cli.Flag{pipelineFlag(true)}, append(append(runFlags(),
			taskFlag("`CODE` of the one task to run"),
			&cli.StringFlag{Name: "run-date", Usage: "`DATE` of a new run, as 2026-09-01; else today in UTC"},
			&cli.BoolFlag{Name: "init-only", Usage: "orchestration.mode remote: only makes the run"},
			checkOnlyFlag(),
			&cli.BoolFlag{Name: "finalize-only", Usage: "orchestration.mode remote: only ends the run"},
		), unusualFlags()...)...),
		Action: p.runPipeline,
	}
}

func (p *program) runPipeline(c *cli.Context) (err error) {
	if c.IsSet("run-id") && c.Int64("run-id") < 1 {
		return fault.New(fault.Usage, "--run-id is a number above 0")
	}
	req := engine.RunRequest{
		Pipeline: c.String("pipeline"), RunID: c.Int64("run-id"), RunKey: c.String("run-key"), Task: c.String("task"),
		RunDate: c.String("run-date"), InitOnly: c.Bool("init-only"), FinalizeOnly: c.Bool("finalize-only"),
	}
	if err := readUnusual(c, &req); err != nil {
		return err
	}
	if c.Bool("check-only") {
		if err := refuseUnusual(c, "--check-only"); err != nil {
			return err
		}
		return p.checkOnly(c)
	}
	n := needs{store: true, locker: true, stop: p.interrupts.drain()}
	var view *liveView
	if p.err.terminal && !p.json {
		view = newLiveView(p.err)
		n.observer, n.logTo, n.quiet = view, view, true
	}
	project, err := p.open(c, n)
	if err != nil {
		return err
	}
	defer project.closeInto(&err)
	if req.Backfill != "" {
		doc, err := project.Backfill(c.Context, req)
		view.end()
		if doc == nil {
			return err
		}
		return p.answer(doc, func() string { return backfillText(doc, p.out) }, err)
	}
	doc, err := project.Run(c.Context, req)
	view.end()
	if doc == nil {
		return err
	}
	return p.answer(doc, func() string { return runText(doc, p.out) }, err)
}

// runText is a run as a table of its tasks and a summary.
func runText(doc *engine.RunDocument, s *screen) string {
	var rows [][]string
	for _, t := range doc.Tasks {
		rows = append(rows, []string{
			s.state(t.Status), t.Task, orDash(t.Action), countText(t.RowsWritten), secondsText(t.DurationSeconds), reasonOf(t),
		})
	}
	var b strings.Builder
	if len(rows) > 0 {
		b.WriteString(s.table([]string{"STATE", "TASK", "ACTION", number + "ROWS", number + "TIME", "REASON"}, rows) + "\n")
	}
	for _, t := range doc.Tasks {
		if t.Error != nil && t.Error.Hint != nil {
			fmt.Fprintf(&b, "%s %s: %s\n", s.paint(text.FgCyan, "hint for"), t.Task, *t.Error.Hint)
		}
	}
	b.WriteString(summary(doc, s) + "\n")
	if doc.PausedBy != nil {
		fmt.Fprintf(&b, "pipeline %s is paused by %s: %s; to go on: etl-craft resume --pipeline %s\n", doc.Pipeline, *doc.PausedBy, orDash(doc.PauseReason), doc.Pipeline)
	}
	return b.String()
}

// taskStates are the states of tasks in the words of a summary.
var taskStates = []struct{ name, text string }{
	{"SUCCESS", "succeeded"}, {"FAILED", "failed"}, {"SKIPPED", "skipped"}, {"CANCELLED", "cancelled"},
	{"IN_PROGRESS", "running"}, {"PENDING", "waiting"},
}

// summary is "run 97 of SALES for 2026-09-01: SUCCESS, 3 tasks succeeded, 28 rows written in 1.2s".
func summary(doc *engine.RunDocument, s *screen) string {
	counts := map[string]int{}
	var written int64
	for _, t := range doc.Tasks {
		counts[t.Status]++
		if t.RowsWritten != nil {
			written += *t.RowsWritten
		}
	}
	parts := []string{s.state(doc.Status)}
	if doc.SkipReason != nil {
		parts[0] += " (" + *doc.SkipReason + ")"
	}
	for _, state := range taskStates {
		if n := counts[state.name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state.text))
		}
	}
	rows := countText(&written) + " rows written"
	if written == 1 {
		rows = "1 row written"
	}
	if doc.EndedAt != nil {
		rows += " in " + durationText(doc.EndedAt.Sub(doc.StartedAt.Time))
	}
	line := fmt.Sprintf("run %d of %s for %s: %s", doc.PipelineRunID, doc.Pipeline, doc.RunDate, strings.Join(append(parts, rows), ", "))
	if doc.PreviousRunID != nil {
		line += fmt.Sprintf("; run %d was finished first", *doc.PreviousRunID)
	}
	return line
}

// reasonOf says why a task is not SUCCESS.
func reasonOf(t engine.TaskDocument) string {
	switch {
	case t.Error != nil && t.NotBefore != nil:
		return fmt.Sprintf("%s, next try at %s", t.Error.Code, t.NotBefore.UTC().Format("15:04:05Z"))
	case t.Error != nil && t.Error.Step != nil:
		return t.Error.Code + ": " + *t.Error.Step + ": " + t.Error.Message
	case t.Error != nil:
		return t.Error.Code + ": " + t.Error.Message
	case t.SkipReason != nil:
		return *t.SkipReason
	case t.WaitsFor != nil:
		return fmt.Sprintf("waits for %s until %s", *t.WaitsFor, t.WaitsUntil.UTC().Format("15:04:05Z"))
	case t.Attempts > 1:
		return fmt.Sprintf("attempt %d", t.Attempts)
	}
	return ""
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// countText is a number with its thousands apart, "-" for null.
func countText(n *int64) string {
	if n == nil {
		return "-"
	}
	digits := strconv.FormatInt(*n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func secondsText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return durationText(time.Duration(*seconds * float64(time.Second)))
}

func durationText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
