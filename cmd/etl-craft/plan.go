package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
)

// planAnswer is the document of plan, with the error of the first task that would be refused.
type planAnswer struct {
	*engine.PlanDocument
	Error *errorObject `json:"error,omitempty"`
}

func (p *program) planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "shows the statements that each task would run now, and writes nothing",
		Description: "etl-craft plan --pipeline SALES\netl-craft plan --pipeline SALES --task load_customers",
		Flags: []cli.Flag{
			pipelineFlag(true), taskFlag("`CODE` of the one task to plan"),
			&cli.BoolFlag{Name: "offline", Usage: "connects to no warehouse, and shows no statements"},
		},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true, looks: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Plan(c.Context, engine.PlanRequest{
				Pipeline: c.String("pipeline"), Task: c.String("task"), Offline: c.Bool("offline"),
			})
			if doc == nil {
				return err
			}
			answer := planAnswer{PlanDocument: doc}
			if err != nil {
				refused := errorDocumentOf(err).Error
				answer.Error = &refused
			}
			return p.answer(answer, func() string { return planText(doc, p.out) }, err)
		},
	}
}

func taskFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "task", Aliases: []string{"task-code"}, Usage: usage}
}

func planText(doc *engine.PlanDocument, s *screen) string {
	var b strings.Builder
	for i, t := range doc.Tasks {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "-- task %s\n", t.Task)
		switch {
		case t.Error != nil:
			fmt.Fprintf(&b, "-- %s\n-- refused: %s\n", title(t), t.Error.Message)
			if t.Error.Hint != nil {
				fmt.Fprintf(&b, "-- hint: %s\n", *t.Error.Hint)
			}
		case len(t.Steps) == 0 && t.BlockedBy != nil:
			fmt.Fprintf(&b, "-- %s\n-- incomplete: %s\n", title(t), strings.Join(strings.Fields(*t.BlockedBy), " "))
		default:
			b.WriteString(t.Plan.String())
		}
	}
	if len(doc.Tasks) == 0 {
		fmt.Fprintf(&b, "-- pipeline %s has no tasks\n", doc.Pipeline)
	}
	return s.sql(b.String())
}

func title(t engine.PlanTask) string {
	words := []string{t.Handler}
	if t.Action != nil {
		words[0] = *t.Action
	}
	if t.Target != nil {
		words = append(words, *t.Target)
	}
	return strings.Join(words, " ")
}
