package main

import (
	"strconv"

	"github.com/urfave/cli/v2"
)

func (p *program) listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "lists the pipelines with their newest run",
		Description: "etl-craft list\netl-craft list -o json",
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.List(c.Context)
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				if len(doc.Pipelines) == 0 {
					return "no pipelines yet; etl-craft apply takes them from the files in pipelines/\n"
				}
				var rows [][]string
				for _, l := range doc.Pipelines {
					run, state, started := "-", "-", "-"
					if r := l.LastRun; r != nil {
						run, state, started = strconv.FormatInt(r.PipelineRunID, 10), p.out.state(r.Status), r.StartedAt.UTC().Format(timeText)
					}
					paused := ""
					if l.PausedBy != nil {
						paused = "paused by " + *l.PausedBy
					}
					rows = append(rows, []string{l.Pipeline, l.Name, l.RefreshType, orDash(l.Schedule), run, state, started, paused})
				}
				return p.out.table([]string{"PIPELINE", "NAME", "REFRESH", "SCHEDULE", number + "LAST RUN", "STATE", "STARTED (UTC)", ""}, rows)
			}, nil)
		},
	}
}
