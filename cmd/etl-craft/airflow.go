package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func (p *program) airflowCommand() *cli.Command {
	return &cli.Command{
		Name: "airflow", Usage: "writes the Airflow 3 DAG file of a pipeline",
		Description: "etl-craft airflow --pipeline SALES --profile prod --out dags/SALES.py",
		Flags: []cli.Flag{
			pipelineFlag(true),
			&cli.StringFlag{Name: "out", Usage: "`FILE` to write, or to replace when it is such a DAG; else it goes to the screen"},
		},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Airflow(c.Context, c.String("pipeline"), c.String("out"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				if doc.File == nil {
					return doc.DAG
				}
				return fmt.Sprintf("%s\n", *doc.File)
			}, nil)
		},
	}
}
