package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (p *program) explainCommand() *cli.Command {
	return &cli.Command{
		Name: "explain", Usage: "says why a task is in its state, and what would make it run",
		Description: "etl-craft explain --pipeline SALES --task load_orders",
		Flags:       append([]cli.Flag{pipelineFlag(true), taskFlag("`CODE` of the task")}, runFlags()...),
		Action: func(c *cli.Context) (err error) {
			chosen, err := runChoice(c)
			if err != nil {
				return err
			}
			if c.String("task") == "" {
				return fault.New(fault.Usage, "--task is missing").WithHint("etl-craft graph --pipeline %s", chosen.Pipeline)
			}
			project, err := p.open(c, needs{store: true, locker: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Explain(c.Context, engine.ExplainRequest{Task: c.String("task"), StatusRequest: chosen})
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return explainText(doc, c.String("task"), p.out) }, nil)
		},
	}
}

func explainText(doc *engine.ExplainDocument, task string, s *screen) string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s of %s", task, doc.Pipeline)
	if doc.PipelineRunID != nil {
		fmt.Fprintf(&b, " in run %d, which is %s", *doc.PipelineRunID, *doc.RunStatus)
	}
	b.WriteString("\n")
	if doc.Task != nil {
		fmt.Fprintf(&b, "%s: ", s.state(doc.Task.Status))
	}
	fmt.Fprintf(&b, "%s\n", doc.Why)
	if doc.Next != "" {
		fmt.Fprintf(&b, "next: %s\n", doc.Next)
	}
	if len(doc.DependsOn) > 0 {
		condition := doc.RunCondition
		if condition != "ALL" && condition != "ANY" {
			condition = "at least " + condition
		}
		fmt.Fprintf(&b, "\nwaits for %s of:\n%s", strings.ToLower(condition), dependencyTable(doc.DependsOn, s))
	}
	if len(doc.PipelineDependsOn) > 0 {
		fmt.Fprintf(&b, "\na new run of %s waits for:\n%s", doc.Pipeline, dependencyTable(doc.PipelineDependsOn, s))
	}
	return b.String()
}

func dependencyTable(list []engine.ExplainDependency, s *screen) string {
	rows := make([][]string, len(list))
	for i, d := range list {
		holds := "open"
		if d.Holds != nil {
			holds = map[bool]string{true: "yes", false: "no"}[*d.Holds]
		}
		rows[i] = []string{d.Upstream, d.On, holds, d.Why}
	}
	return s.table([]string{"DEPENDENCY", "ON", "HOLDS", "WHY"}, rows)
}
