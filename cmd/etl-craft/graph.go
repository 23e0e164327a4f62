package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
)

func (p *program) graphCommand() *cli.Command {
	return &cli.Command{
		Name: "graph", Usage: "shows what a pipeline and its tasks wait for",
		Description: "etl-craft graph --pipeline SALES\netl-craft graph --pipeline SALES --diagram mermaid",
		Flags: []cli.Flag{
			pipelineFlag(true),
			diagramFlag(),
		},
		Action: func(c *cli.Context) (err error) {
			if err := checkDiagram(c); err != nil {
				return err
			}
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Graph(c.Context, c.String("pipeline"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				switch c.String("diagram") {
				case "mermaid":
					return graphDiagram(doc).mermaid()
				case "dot":
					return graphDiagram(doc).dot(doc.Pipeline)
				}
				return graphText(doc, p.out)
			}, nil)
		},
	}
}

func graphText(doc *engine.GraphDocument, s *screen) string {
	var b strings.Builder
	for _, e := range doc.DependsOn {
		fmt.Fprintf(&b, "pipeline %s waits for pipeline %s\n", doc.Pipeline, edgeText(doc.Pipeline, e))
	}
	if len(doc.DependsOn) > 0 {
		b.WriteString("\n")
	}
	if len(doc.Tasks) == 0 {
		return b.String() + "pipeline " + doc.Pipeline + " has no tasks\n"
	}
	var rows [][]string
	for _, t := range doc.Tasks {
		var edges []string
		for _, e := range t.DependsOn {
			edges = append(edges, edgeText(doc.Pipeline, e))
		}
		waits := strings.Join(edges, ", ")
		switch {
		case len(edges) < 2 || t.RunCondition == "ALL":
		case t.RunCondition == "ANY":
			waits = "any of " + waits
		default:
			waits = t.RunCondition + " of " + waits
		}
		rows = append(rows, []string{strconv.Itoa(t.Wave), t.Task, orDash(t.Action), orDash(t.Target), waits})
	}
	return b.String() + s.table([]string{number + "WAVE", "TASK", "ACTION", "TARGET", "WAITS FOR"}, rows)
}

// edgeText is "load_orders", "RAW.extract on HAS_DATA", "RAW of the same date".
func edgeText(pipeline string, e engine.GraphEdge) string {
	name := e.Pipeline
	if e.Task != nil {
		name = *e.Task
		if e.Pipeline != pipeline {
			name = e.Pipeline + "." + name
		}
	}
	if e.On != "SUCCESS" {
		name += " on " + e.On
	}
	if e.Match == "same_date" {
		name += " of the same date"
	}
	return name
}
