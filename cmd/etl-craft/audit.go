package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
)

func (p *program) auditCommand() *cli.Command {
	return &cli.Command{
		Name: "audit", Usage: "shows who did what: commands, interventions and changes of metadata, the oldest first",
		Description: "etl-craft audit\netl-craft audit --pipeline SALES --since 24h\netl-craft audit --since 2026-09-01T05:00",
		Flags: []cli.Flag{
			pipelineFlag(false),
			&cli.StringFlag{Name: "since", Value: "7d", Usage: "a date or time in UTC, or how long ago: `T` as 2026-09-01, 2026-09-01T05:00, 24h or 7d"},
		},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Audit(c.Context, c.String("pipeline"), c.String("since"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return auditText(doc, p.out) }, nil)
		},
	}
}

func auditText(doc *engine.AuditDocument, s *screen) string {
	if len(doc.Entries) == 0 {
		return "nothing since " + doc.Since.UTC().Format(timeText) + " UTC\n"
	}
	var rows [][]string
	for _, e := range doc.Entries {
		about := "-"
		if e.Pipeline != nil {
			about = *e.Pipeline
		}
		if e.Task != nil {
			about += "." + *e.Task
		}
		run := "-"
		if e.PipelineRunID != nil {
			run = strconv.FormatInt(*e.PipelineRunID, 10)
		}
		if e.Kind == engine.AuditMetadata {
			about = *e.Key
		}
		rows = append(rows, []string{e.At.UTC().Format(timeText), e.Actor, e.Kind, e.Action, about, run, auditDetail(e)})
	}
	return s.table([]string{"TIME (UTC)", "BY", "KIND", "ACTION", "ABOUT", number + "RUN", "DETAIL"}, rows)
}

// auditDetail is what came of a command, from which status to which an intervention led, or which table changed.
func auditDetail(e engine.AuditEntry) string {
	var parts []string
	switch {
	case e.Kind == engine.AuditMetadata:
		parts = append(parts, *e.Table)
		if e.Origin != nil {
			parts = append(parts, "("+*e.Origin+")")
		}
	case e.Kind == engine.AuditIntervention:
		if e.FromStatus != nil || e.ToStatus != nil {
			parts = append(parts, orDash(e.FromStatus)+" -> "+orDash(e.ToStatus))
		}
		if e.Rows != nil {
			parts = append(parts, fmt.Sprintf("%s rows", countText(e.Rows)))
		}
	case e.Outcome == nil:
		parts = append(parts, "not ended")
	default:
		parts = append(parts, *e.Outcome)
		if e.ExitCode != nil && *e.ExitCode != 0 {
			parts = append(parts, fmt.Sprintf("(exit %d)", *e.ExitCode))
		}
	}
	if e.Result != nil {
		var counts struct {
			Runs, Rows, Files int64
			Fixed             *[]string
		}
		switch err := json.Unmarshal(e.Result, &counts); {
		case err != nil:
		case counts.Fixed != nil:
			parts = append(parts, fmt.Sprintf("%d fixed", len(*counts.Fixed)))
		default:
			parts = append(parts, counted(counts.Runs, "run")+", "+counted(counts.Rows, "row")+", "+counted(counts.Files, "file"))
		}
	}
	if e.Reason != nil {
		parts = append(parts, strconv.Quote(*e.Reason))
	}
	return strings.Join(parts, " ")
}
