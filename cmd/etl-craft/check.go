package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func checkOnlyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "check-only", Usage: "with --task: only says whether it may run; exit 0 yes, 7 not yet, 99 skip it"}
}

// checkOnly answers for a run that it does not touch.
func (p *program) checkOnly(c *cli.Context) (err error) {
	takes := []string{"pipeline", "task", "run-id", "run-key", "run-date", "init-only", "check-only"}
	for _, f := range globalFlags() {
		takes = append(takes, f.Names()[0])
	}
	var others []string
	for _, f := range c.Command.Flags {
		if name := f.Names()[0]; c.IsSet(name) && !slices.Contains(takes, name) {
			others = append(others, "--"+name)
		}
	}
	if len(others) > 0 {
		return fault.New(fault.Usage, "--check-only excludes %s", strings.Join(others, ", "))
	}
	project, err := p.open(c, needs{store: true, locker: true})
	if err != nil {
		return err
	}
	defer project.closeInto(&err)
	doc, err := project.Check(c.Context, engine.RunRequest{
		Pipeline: c.String("pipeline"), RunID: c.Int64("run-id"), RunKey: c.String("run-key"), Task: c.String("task"),
		RunDate: c.String("run-date"), InitOnly: c.Bool("init-only"),
	})
	if doc == nil {
		return err
	}
	return p.answer(doc, doc.Text, err)
}
