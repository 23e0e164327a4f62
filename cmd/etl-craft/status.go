package main

import (
	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "shows a run: the named one, else the unfinished one, else the newest",
		Description: "etl-craft status --pipeline SALES\netl-craft status --pipeline SALES --run-id 97",
		Flags:       append([]cli.Flag{pipelineFlag(true)}, runFlags()...),
		Action: func(c *cli.Context) (err error) {
			req, err := runChoice(c)
			if err != nil {
				return err
			}
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Status(c.Context, req)
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return runText(doc, p.out) }, nil)
		},
	}
}

// runChoice reads which run of which pipeline is meant.
func runChoice(c *cli.Context) (engine.StatusRequest, error) {
	req := engine.StatusRequest{Pipeline: c.String("pipeline"), RunID: c.Int64("run-id"), RunKey: c.String("run-key")}
	switch {
	case c.IsSet("run-id") && req.RunID < 1:
		return req, fault.New(fault.Usage, "--run-id is a number above 0")
	case c.IsSet("run-id") && c.IsSet("run-key"):
		return req, fault.New(fault.Usage, "--run-id and --run-key exclude each other")
	}
	return req, nil
}
