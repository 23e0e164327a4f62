package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
)

func diagramFlag() cli.Flag {
	return &cli.StringFlag{Name: "diagram", Usage: "prints a diagram in the `LANGUAGE` mermaid or dot instead of the text"}
}

func checkDiagram(c *cli.Context) error {
	if !c.IsSet("diagram") {
		return nil
	}
	return oneOf("diagram", c.String("diagram"), []string{"mermaid", "dot"})
}

// diagram is what a graph looks like in any language: boxes, and arrows between them.
type diagram struct {
	boxes  []string // labels, in order of their numbers
	number map[string]int
	arrows []arrow
}

type arrow struct {
	from, to int
	label    string // may be ""
}

func newDiagram() *diagram { return &diagram{number: map[string]int{}} }

// graphDiagram has arrows from what is waited for to what waits, without a label for a SUCCESS.
func graphDiagram(doc *engine.GraphDocument) *diagram {
	d := newDiagram()
	if len(doc.DependsOn) > 0 {
		d.box("pipeline " + doc.Pipeline)
	}
	for _, e := range doc.DependsOn {
		d.arrow("pipeline "+e.Pipeline, "pipeline "+doc.Pipeline, edgeLabel(e))
	}
	for _, t := range doc.Tasks {
		d.box(t.Task)
		for _, e := range t.DependsOn {
			from := *e.Task
			if e.Pipeline != doc.Pipeline {
				from = e.Pipeline + "." + from
			}
			d.arrow(from, t.Task, edgeLabel(e))
		}
	}
	return d
}

func (d *diagram) box(label string) int {
	n, ok := d.number[label]
	if !ok {
		n = len(d.boxes)
		d.number[label] = n
		d.boxes = append(d.boxes, label)
	}
	return n
}

func (d *diagram) arrow(from, to, label string) {
	d.arrows = append(d.arrows, arrow{d.box(from), d.box(to), label})
}

func edgeLabel(e engine.GraphEdge) string {
	var label []string
	if e.On != "SUCCESS" {
		label = append(label, e.On)
	}
	if e.Match == "same_date" {
		label = append(label, "same date")
	}
	return strings.Join(label, ", ")
}

// mermaid is a Mermaid flowchart. Only a box can hold what Mermaid would take for its own syntax: a quote in a table's name.
func (d *diagram) mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, label := range d.boxes {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, strings.ReplaceAll(label, `"`, "#quot;"))
	}
	for _, a := range d.arrows {
		if a.label == "" {
			fmt.Fprintf(&b, "  n%d --> n%d\n", a.from, a.to)
		} else {
			fmt.Fprintf(&b, "  n%d -->|%s| n%d\n", a.from, a.label, a.to)
		}
	}
	return b.String()
}

// dot is a graph for Graphviz.
func (d *diagram) dot(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=LR\n  node [shape=box]\n", name)
	for i, label := range d.boxes {
		fmt.Fprintf(&b, "  n%d [label=%q]\n", i, label)
	}
	for _, a := range d.arrows {
		if a.label == "" {
			fmt.Fprintf(&b, "  n%d -> n%d\n", a.from, a.to)
		} else {
			fmt.Fprintf(&b, "  n%d -> n%d [label=%q]\n", a.from, a.to, a.label)
		}
	}
	return b.String() + "}\n"
}
