package main

import (
	"strconv"

	"github.com/urfave/cli/v2"
)

func (p *program) locksCommand() *cli.Command {
	return &cli.Command{
		Name: "locks", Usage: "lists the target locks that are held, by any process",
		Description: "etl-craft locks",
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true, locker: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Locks(c.Context)
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				if len(doc.Locks) == 0 {
					return "no target is locked\n"
				}
				var rows [][]string
				for _, l := range doc.Locks {
					rows = append(rows, []string{
						l.What, l.Pipeline, orDash(l.Task), countText(l.PipelineRunID), l.Host, strconv.Itoa(l.PID), l.Since.UTC().Format(timeText),
					})
				}
				return p.out.table([]string{"LOCK", "PIPELINE", "TASK", number + "RUN", "HOST", number + "PID", "SINCE (UTC)"}, rows)
			}, nil)
		},
	}
}
