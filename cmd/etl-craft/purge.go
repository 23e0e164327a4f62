package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
)

func (p *program) purgeCommand() *cli.Command {
	return &cli.Command{
		Name: "purge", Usage: "deletes old runs with their logs, and old audit rows, except what is still needed",
		Description: "etl-craft purge --older-than 90d --dry-run\netl-craft purge --older-than 90d\netl-craft purge --older-than 26w --pipeline SALES",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "older-than", Usage: "`AGE` since the end of a run, as 90d, 12w or 48h; at least 1d", Required: true},
			pipelineFlag(false),
			&cli.BoolFlag{Name: "dry-run", Usage: "only counts"},
		},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true, stop: p.interrupts.drain()})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Purge(c.Context, engine.PurgeRequest{
				OlderThan: c.String("older-than"), Pipeline: c.String("pipeline"), DryRun: c.Bool("dry-run")})
			if doc == nil {
				return err
			}
			return p.answer(doc, func() string { return purgeText(doc, p.out) }, err)
		},
	}
}

func purgeText(doc *engine.PurgeDocument, s *screen) string {
	var b strings.Builder
	var rows [][]string
	for _, t := range doc.Tables {
		if t.Rows > 0 {
			rows = append(rows, []string{t.Table, countText(&t.Rows)})
		}
	}
	if len(rows) > 0 {
		b.WriteString(s.table([]string{"TABLE", number + "ROWS"}, rows) + "\n")
	}
	what := "purged"
	if doc.DryRun {
		what = "would be purged"
	}
	before := doc.Before.UTC().Format(timeText) + " UTC"
	if doc.Rows+doc.Files == 0 {
		fmt.Fprintf(&b, "nothing from before %s is to be purged\n", before)
	} else {
		fmt.Fprintf(&b, "from before %s: %s, %s in all and %s (%s) %s\n", before,
			counted(doc.Runs, "run"), counted(doc.Rows, "row"), counted(doc.Files, "file"), bytesText(doc.Bytes), what)
	}
	if doc.LogsElsewhere > 0 {
		fmt.Fprintf(&b, "left alone, because not in orchestration.log_dir: %s\n", counted(doc.LogsElsewhere, "log"))
	}
	if doc.LogsMissing > 0 {
		fmt.Fprintf(&b, "not found in orchestration.log_dir of this host: %s\n", counted(doc.LogsMissing, "log"))
	}
	if doc.LogsFailed > 0 {
		fmt.Fprintf(&b, "cannot be removed, so that their runs stay: %s\n", counted(doc.LogsFailed, "log"))
	}
	var kept []string
	for _, k := range []struct {
		n   int64
		why string
	}{
		{doc.Kept.Newest, "newest of a pipeline"}, {doc.Kept.Gates, "for a dependency that can still choose it"},
		{doc.Kept.Backfill, "of a pipeline's newest backfill"}, {doc.Kept.Running, "with a task that has not ended"},
	} {
		if k.n > 0 {
			kept = append(kept, countText(&k.n)+" "+k.why)
		}
	}
	if len(kept) > 0 {
		fmt.Fprintf(&b, "older runs that stay: %s\n", strings.Join(kept, ", "))
	}
	return b.String()
}

// counted is 1 run, 2 runs.
func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return countText(&n) + " " + what
}

// bytesText is a size as people read it: 12 B, 3.4 kB, 5.6 MB.
func bytesText(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), 0
	for size >= 999.95 && unit < 4 {
		size, unit = size/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", size, " kMGT"[unit])
}
