package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func pipelineFlag(required bool) cli.Flag {
	return &cli.StringFlag{Name: "pipeline", Aliases: []string{"pipeline-code"}, Required: required, Usage: "`CODE` of the pipeline"}
}

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name: "validate", Usage: "finds every problem that can be seen without a warehouse",
		Description: "etl-craft validate\netl-craft validate --pipeline SALES\netl-craft validate --files",
		Flags: []cli.Flag{
			pipelineFlag(false),
			&cli.BoolFlag{Name: "files", Usage: "checks the files instead of the Engine DB, which need not exist"},
		},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: !c.Bool("files")})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Validate(c.Context, c.String("pipeline"), c.Bool("files"))
			if doc == nil {
				return err
			}
			return p.answer(doc, func() string {
				return problemLines(doc.Problems, p.out) + fmt.Sprintf("%d FAIL, %d WARN\n", doc.Failures, doc.Warnings)
			}, err)
		},
	}
}
