package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

func (p *program) exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "writes a pipeline file for each pipeline of the Engine DB", ArgsUsage: "DIR",
		Description: "etl-craft export pipelines\netl-craft export pipelines --force",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "replaces files that say something else"}},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Export(c.Context, c.Args().First(), c.Bool("force"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				if len(doc.Files) == 0 {
					return "no pipelines to export\n"
				}
				return strings.Join(doc.Files, "\n") + "\n"
			}, nil)
		},
	}
}
