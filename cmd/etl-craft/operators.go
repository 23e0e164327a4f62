package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func reasonFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "reason", Usage: usage}
}

const whyRequired = "why, as `TEXT`; it is kept with the run (required)"

func (p *program) markCommand() *cli.Command {
	return &cli.Command{
		Name: "mark", Usage: "sets the status of a task or of a run by hand",
		Description: "etl-craft mark --pipeline SALES --task load_orders --status SUCCESS --rows 120 --reason \"loaded by hand\"\n" +
			"etl-craft mark --pipeline SALES --run-id 97 --status SUCCESS --reason \"the failure does not matter\"\n" +
			"etl-craft mark --pipeline RAW --new-run --status SUCCESS --reason \"the files came by mail\"",
		Flags: append([]cli.Flag{pipelineFlag(true)}, append(runFlags(),
			taskFlag("`CODE` of the task; without it the run itself"),
			&cli.StringFlag{Name: "status", Usage: "`STATUS`: SUCCESS, FAILED or SKIPPED", Required: true},
			&cli.Int64Flag{Name: "rows", Usage: "a task marked SUCCESS has written `N` rows, which HAS_DATA asks for"},
			&cli.BoolFlag{Name: "new-run", Usage: "adds a run that has ended, in place of one that never ran"},
			reasonFlag(whyRequired),
		)...),
		Action: p.onRun(needs{store: true, locker: true}, (*engine.Engine).Mark),
	}
}

func (p *program) skipCommand() *cli.Command {
	return &cli.Command{
		Name: "skip", Usage: "skips a task that waits or has failed, or all of a run that waits",
		Description: "etl-craft skip --pipeline SALES --task load_orders --reason \"the source is closed today\"\n" +
			"etl-craft skip --pipeline SALES --reason \"public holiday\"",
		Flags: append([]cli.Flag{pipelineFlag(true)}, append(runFlags(),
			taskFlag("`CODE` of the task; without it every task that waits, and the run ends"), reasonFlag(whyRequired))...),
		Action: p.onRun(needs{store: true, locker: true}, (*engine.Engine).Skip),
	}
}

func (p *program) cancelCommand() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "ends the unfinished run of a pipeline, with the statements that it runs",
		Description: "etl-craft cancel --pipeline SALES --reason \"wrong source\"",
		Flags:       append([]cli.Flag{pipelineFlag(true)}, append(runFlags(), reasonFlag(whyRequired))...),
		Action:      p.onRun(needs{store: true, locker: true}, (*engine.Engine).Cancel),
	}
}

// onRun is a command that changes a run and shows it.
func (p *program) onRun(n needs, do func(*engine.Engine, context.Context, engine.OperatorRequest) (*engine.RunDocument, error)) cli.ActionFunc {
	return func(c *cli.Context) (err error) {
		req, err := operatorRequest(c)
		if err != nil {
			return err
		}
		project, err := p.open(c, n)
		if err != nil {
			return err
		}
		defer project.closeInto(&err)
		doc, err := do(project.Engine, c.Context, req)
		if err != nil {
			return err
		}
		return p.answer(doc, func() string { return runText(doc, p.out) }, nil)
	}
}

func operatorRequest(c *cli.Context) (engine.OperatorRequest, error) {
	req := engine.OperatorRequest{
		Pipeline: c.String("pipeline"), RunID: c.Int64("run-id"), RunKey: c.String("run-key"), Task: c.String("task"),
		Status: strings.ToUpper(c.String("status")), NewRun: c.Bool("new-run"), Reason: c.String("reason"),
	}
	if c.IsSet("run-id") && req.RunID < 1 {
		return req, fault.New(fault.Usage, "--run-id is a number above 0")
	}
	if c.IsSet("rows") {
		rows := c.Int64("rows")
		req.Rows = &rows
	}
	return req, nil
}

func (p *program) pauseCommand() *cli.Command {
	return &cli.Command{
		Name: "pause", Usage: "keeps the tasks of a pipeline from starting; running ones finish",
		Description: "etl-craft pause --pipeline SALES --reason \"the source is being moved\"",
		Flags:       []cli.Flag{pipelineFlag(true), reasonFlag("why, as `TEXT`; `run` shows it (required)")},
		Action:      p.onPause((*engine.Engine).Pause),
	}
}

func (p *program) resumeCommand() *cli.Command {
	return &cli.Command{
		Name: "resume", Usage: "ends the pause of a pipeline; etl-craft run goes on with its run",
		Description: "etl-craft resume --pipeline SALES",
		Flags:       []cli.Flag{pipelineFlag(true), reasonFlag("why, as `TEXT`")},
		Action:      p.onPause((*engine.Engine).Resume),
	}
}

func (p *program) onPause(do func(*engine.Engine, context.Context, engine.OperatorRequest) (*engine.PauseDocument, error)) cli.ActionFunc {
	return func(c *cli.Context) (err error) {
		project, err := p.open(c, needs{store: true})
		if err != nil {
			return err
		}
		defer project.closeInto(&err)
		doc, err := do(project.Engine, c.Context, engine.OperatorRequest{Pipeline: c.String("pipeline"), Reason: c.String("reason")})
		if err != nil {
			return err
		}
		return p.answer(doc, func() string { return pauseText(doc) }, nil)
	}
}

func pauseText(doc *engine.PauseDocument) string {
	switch {
	case doc.Paused && doc.PipelineRunID != nil:
		return fmt.Sprintf("pipeline %s is paused; run %d stays IN_PROGRESS, and what it runs finishes\n", doc.Pipeline, *doc.PipelineRunID)
	case doc.Paused:
		return fmt.Sprintf("pipeline %s is paused\n", doc.Pipeline)
	case !doc.Changed:
		return fmt.Sprintf("pipeline %s is not paused\n", doc.Pipeline)
	case doc.PipelineRunID != nil:
		return fmt.Sprintf("pipeline %s is not paused any more; its run %d goes on with: etl-craft run --pipeline %[1]s\n", doc.Pipeline, *doc.PipelineRunID)
	}
	return fmt.Sprintf("pipeline %s is not paused any more\n", doc.Pipeline)
}

func (p *program) reconcileCommand() *cli.Command {
	return &cli.Command{
		Name: "reconcile", Usage: "ends what dead processes left running, releases their runs and records SLAs that have passed; every run does so for its own pipeline",
		Description: "etl-craft reconcile\netl-craft reconcile --pipeline SALES",
		Flags:       []cli.Flag{pipelineFlag(false)},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true, locker: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Reconcile(c.Context, c.String("pipeline"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return reconcileText(doc) }, nil)
		},
	}
}

func reconcileText(doc *engine.ReconcileDocument) string {
	var b strings.Builder
	for _, a := range doc.Lost {
		fmt.Fprintf(&b, "lost: attempt %d of %s.%s in run %d, whose process %s is gone; the task is %s\n",
			a.Attempt, a.Pipeline, a.Task, a.PipelineRunID, a.Owner, a.TaskStatus)
	}
	for _, r := range doc.Released {
		fmt.Fprintf(&b, "released: run %d of %s, whose process %s is gone; to go on: etl-craft run --pipeline %[2]s\n", r.PipelineRunID, r.Pipeline, r.Owner)
	}
	for _, a := range doc.Living {
		fmt.Fprintf(&b, "left alone: attempt %d of %s.%s in run %d, whose process %s lives\n", a.Attempt, a.Pipeline, a.Task, a.PipelineRunID, a.Owner)
	}
	for _, id := range doc.Breached {
		fmt.Fprintf(&b, "SLA breached: run %d has taken longer than its pipeline's SLA and is unfinished\n", id)
	}
	if len(doc.Lost)+len(doc.Released)+len(doc.Breached) == 0 {
		b.WriteString("nothing to do\n")
	}
	return b.String()
}
