package main

import (
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

const timeText = "2006-01-02 15:04:05"

func (p *program) historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "lists the runs of a pipeline, the newest first",
		Description: "etl-craft history --pipeline SALES\netl-craft history --pipeline SALES --limit 100",
		Flags: []cli.Flag{
			pipelineFlag(true),
			&cli.IntFlag{Name: "limit", Value: 20, Usage: "at most `N` runs"},
		},
		Action: func(c *cli.Context) (err error) {
			if c.Int("limit") < 1 {
				return fault.New(fault.Usage, "--limit is a number above 0")
			}
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.History(c.Context, c.String("pipeline"), c.Int("limit"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				if len(doc.Runs) == 0 {
					return "pipeline " + doc.Pipeline + " has not run yet\n"
				}
				var rows [][]string
				for _, r := range doc.Runs {
					reason := ""
					if r.SkipReason != nil {
						reason = *r.SkipReason
					}
					rows = append(rows, []string{
						strconv.FormatInt(r.PipelineRunID, 10), p.out.state(r.Status), r.RunDate, r.Trigger,
						r.StartedAt.UTC().Format(timeText), secondsText(r.DurationSeconds), orDash(r.SLAStatus), r.StartedBy, r.RunKey, reason,
					})
				}
				return p.out.table([]string{number + "RUN", "STATE", "DATE", "TRIGGER", "STARTED (UTC)", number + "TIME", "SLA", "BY", "KEY", "REASON"}, rows) +
					interventionsText(doc, p.out)
			}, nil)
		},
	}
}

// interventionsText is what operators did to the runs above.
func interventionsText(doc *engine.HistoryDocument, s *screen) string {
	if len(doc.Interventions) == 0 {
		return ""
	}
	var rows [][]string
	for _, i := range doc.Interventions {
		rows = append(rows, []string{
			strconv.FormatInt(i.PipelineRunID, 10), i.At.UTC().Format(timeText), i.Action, orDash(i.Task), orDash(i.FromStatus), orDash(i.ToStatus),
			i.By, i.Reason,
		})
	}
	return "\n" + s.table([]string{number + "RUN", "INTERVENTION (UTC)", "ACTION", "TASK", "FROM", "TO", "BY", "REASON"}, rows)
}
