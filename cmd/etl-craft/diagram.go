package main

import (
	"fmt"
	"strings"

	"github.com/etl-craft/etl-craft/engine"
)

// diagram is what a graph looks like in any language: boxes, and arrows from what is waited for to what waits.
type diagram struct {
	boxes  []string // labels, in order of their numbers
	number map[string]int
	arrows []arrow
}

type arrow struct {
	from, to int
	label    string // "" for a SUCCESS
}

func newDiagram(doc *engine.GraphDocument) *diagram {
	d := &diagram{number: map[string]int{}}
	if len(doc.DependsOn) > 0 {
		d.box("pipeline " + doc.Pipeline)
	}
	for _, e := range doc.DependsOn {
		d.arrow("pipeline "+e.Pipeline, "pipeline "+doc.Pipeline, e)
	}
	for _, t := range doc.Tasks {
		d.box(t.Task)
		for _, e := range t.DependsOn {
			from := *e.Task
			if e.Pipeline != doc.Pipeline {
				from = e.Pipeline + "." + from
			}
			d.arrow(from, t.Task, e)
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

func (d *diagram) arrow(from, to string, e engine.GraphEdge) {
	var label []string
	if e.On != "SUCCESS" {
		label = append(label, e.On)
	}
	if e.Match == "same_date" {
		label = append(label, "same date")
	}
	d.arrows = append(d.arrows, arrow{d.box(from), d.box(to), strings.Join(label, ", ")})
}

// mermaid is a Mermaid flowchart. Codes hold nothing that it would take for its own syntax.
func mermaid(doc *engine.GraphDocument, _ *screen) string {
	d := newDiagram(doc)
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, label := range d.boxes {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, label)
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
func dot(doc *engine.GraphDocument, _ *screen) string {
	d := newDiagram(doc)
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=LR\n  node [shape=box]\n", doc.Pipeline)
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
