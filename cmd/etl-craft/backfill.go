package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// unusualFlags make run do what it would refuse otherwise, and backfills.
func unusualFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "force", Usage: "runs all tasks of the run again, or --task, whatever status and gates say"},
		&cli.BoolFlag{Name: "rerun", Usage: "runs --task again, though it has finished"},
		&cli.BoolFlag{Name: "with-downstream", Usage: "with --rerun: and the tasks that wait for it"},
		&cli.BoolFlag{Name: "ignore-dependencies", Usage: "runs --task, though its dependencies are not met"},
		&cli.StringFlag{Name: "backfill", Usage: "one run for each day of `A:B`, as 2026-09-01:2026-09-30"},
		&cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` that is kept with the run; --force, --rerun, --ignore-dependencies and --backfill need it"},
	}
}

// readUnusual completes a request with these flags.
func readUnusual(c *cli.Context, req *engine.RunRequest) error {
	req.Force, req.Rerun, req.WithDownstream = c.Bool("force"), c.Bool("rerun"), c.Bool("with-downstream")
	req.IgnoreDependencies, req.Backfill, req.Reason = c.Bool("ignore-dependencies"), c.String("backfill"), c.String("reason")
	return nil
}

// refuseUnusual is for the modes of run that change nothing.
func refuseUnusual(c *cli.Context, mode string) error {
	for _, f := range unusualFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			return fault.New(fault.Usage, "%s excludes --%s", mode, name)
		}
	}
	return nil
}

// backfillText is a backfill as a table of its days, and the tasks of the run that stopped it.
func backfillText(doc *engine.BackfillDocument, s *screen) string {
	var rows [][]string
	well := 0
	for _, r := range doc.Runs {
		if r.Status == "SUCCESS" || r.Status == "SKIPPED" {
			well++
		}
		var written int64
		for _, t := range r.Tasks {
			if t.RowsWritten != nil {
				written += *t.RowsWritten
			}
		}
		took := "-"
		if r.EndedAt != nil {
			took = durationText(r.EndedAt.Sub(r.StartedAt.Time))
		}
		rows = append(rows, []string{
			s.state(r.Status), r.RunDate, strconv.FormatInt(r.PipelineRunID, 10), r.StartedAt.UTC().Format("2006-01-02 15:04:05Z"), countText(&written), took,
		})
	}
	var b strings.Builder
	b.WriteString(s.table([]string{"STATE", "DATE", number + "RUN", "STARTED", number + "ROWS", number + "TIME"}, rows) + "\n")
	if doc.StoppedAt != nil {
		b.WriteString("\n" + runText(doc.Runs[len(doc.Runs)-1], s))
	}
	fmt.Fprintf(&b, "backfill of %s from %s to %s: ", doc.Pipeline, doc.FirstDate, doc.LastDate)
	if doc.StoppedAt == nil {
		fmt.Fprintf(&b, "%d day(s) done\n", well)
	} else {
		fmt.Fprintf(&b, "%d day(s) done, stopped at %s\n", well, *doc.StoppedAt)
	}
	return b.String()
}
