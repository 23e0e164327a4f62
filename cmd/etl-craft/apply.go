package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
)

func (p *program) applyCommand() *cli.Command {
	return &cli.Command{
		Name: "apply", Usage: "makes the Engine DB's pipelines equal to the files in pipelines/",
		Description: "etl-craft apply --dry-run\netl-craft apply",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "dry-run", Usage: "only shows the difference"}},
		Action: func(c *cli.Context) (err error) {
			project, err := p.open(c, needs{store: true})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Apply(c.Context, c.Bool("dry-run"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return applyText(doc, p.out) }, nil)
		},
	}
}

// operations are the operations of a change, in the order in which they are counted up.
var operations = []struct {
	name, done, planned string
	colour              text.Color
}{
	{store.Inserted, "inserted", "insert", text.FgGreen},
	{store.Updated, "updated", "update", text.FgYellow},
	{store.Restored, "restored", "restore", text.FgGreen},
	{store.Retired, "retired", "retire", text.FgRed},
}

func applyText(doc *engine.ApplyDocument, s *screen) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, c := range doc.Changes {
		counts[c.Operation]++
		for _, o := range operations {
			if o.name == c.Operation {
				b.WriteString(s.paint(o.colour, o.planned))
			}
		}
		fmt.Fprintf(&b, " %s %s\n", c.Object, c.Key)
		if c.Operation != store.Updated && c.Operation != store.Restored {
			continue
		}
		for _, column := range c.Columns {
			fmt.Fprintf(&b, "    %s: %s -> %s\n", column.Column, valueText(column.Old), valueText(column.New))
		}
	}
	if len(doc.Changes) == 0 {
		return "the Engine DB agrees with the files: nothing to change\n"
	}
	var parts []string
	for _, o := range operations {
		switch n := counts[o.name]; {
		case n > 0 && doc.DryRun:
			parts = append(parts, fmt.Sprintf("%s %d", o.planned, n))
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", n, o.done))
		}
	}
	if doc.DryRun {
		return b.String() + "would " + strings.Join(parts, ", ") + "; nothing was changed\n"
	}
	return b.String() + strings.Join(parts, ", ") + "\n"
}

func valueText(v *string) string {
	if v == nil {
		return "NULL"
	}
	return fmt.Sprintf("%q", *v)
}
