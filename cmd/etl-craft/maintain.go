package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// maintenanceAnswer is the document of rehash and upgrade-targets, with the error that the command ends with.
type maintenanceAnswer struct {
	*engine.MaintenanceDocument
	Error *errorObject `json:"error,omitempty"`
}

func (p *program) rehashCommand() *cli.Command {
	return &cli.Command{
		Name: "rehash", Usage: "computes the change hashes of a merge target anew, as its tasks expect them, in one statement",
		Description: "etl-craft rehash --target sales.customers --dry-run\netl-craft rehash --target sales.customers",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "target", Required: true, Usage: "`TABLE` as TARGET_OBJECT names it: schema.table, or database.schema.table"},
			&cli.BoolFlag{Name: "dry-run", Usage: "shows the statement and how many rows it would change, and writes nothing"},
		},
		Action: func(c *cli.Context) error {
			return p.maintain(c, engine.MaintenanceRequest{Target: c.String("target"), DryRun: c.Bool("dry-run")}, (*engine.Engine).Rehash)
		},
	}
}

func (p *program) upgradeTargetsCommand() *cli.Command {
	return &cli.Command{
		Name: "upgrade-targets", Usage: "adds PIPELINE_ID, PIPELINE_RUN_ID and TASK_RUN_ID to targets that were made without them",
		Description: "etl-craft upgrade-targets --dry-run\netl-craft upgrade-targets\netl-craft upgrade-targets --action APPEND_TABLE --target sales.events",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "target", Usage: "only this `TABLE`, as TARGET_OBJECT names it"},
			&cli.StringFlag{Name: "action", Usage: "only targets that a task writes with this `ACTION`, such as APPEND_TABLE"},
			&cli.BoolFlag{Name: "dry-run", Usage: "shows what would be added, and writes nothing"},
		},
		Action: func(c *cli.Context) error {
			action := strings.ToUpper(c.String("action"))
			if action != "" && !slices.Contains(sql.Actions, action) {
				wrong := fault.New(fault.Usage, "--action %q is no action", c.String("action"))
				if near := nearest.Of(action, sql.Actions); near != "" {
					return wrong.WithHint("did you mean %s?", near)
				}
				return wrong.WithHint("it takes %s", strings.Join(sql.Actions, ", "))
			}
			req := engine.MaintenanceRequest{Target: c.String("target"), Action: action, DryRun: c.Bool("dry-run")}
			return p.maintain(c, req, (*engine.Engine).UpgradeTargets)
		},
	}
}

func (p *program) maintain(c *cli.Context, req engine.MaintenanceRequest, do func(*engine.Engine, context.Context, engine.MaintenanceRequest, func(string)) (*engine.MaintenanceDocument, error)) (err error) {
	project, err := p.open(c, needs{store: true, locker: true, looks: req.DryRun, stop: p.interrupts.drain()})
	if err != nil {
		return err
	}
	defer project.closeInto(&err)
	doc, err := do(project.Engine, c.Context, req, func(line string) { _ = p.err.print(line + "\n") })
	if doc == nil {
		return err
	}
	answer := maintenanceAnswer{MaintenanceDocument: doc}
	if err != nil {
		refused := errorDocumentOf(err).Error
		answer.Error = &refused
	}
	return p.answer(answer, func() string { return maintenanceText(doc, p.out) }, err)
}

func maintenanceText(doc *engine.MaintenanceDocument, s *screen) string {
	var b strings.Builder
	var rows [][]string
	for _, t := range doc.Targets {
		if doc.DryRun && t.Status == engine.TargetDone {
			b.WriteString(s.sql(t.Plan.String()))
			b.WriteString("\n")
		}
		detail := ""
		switch {
		case t.Error != nil:
			detail = t.Error.Code + ": " + t.Error.Message
		case t.Status == engine.TargetMissing:
			detail = "there is no such table yet"
		case t.Status == engine.TargetRecorded:
			detail = fmt.Sprintf("the hashes of %d rows over %s are right, which the Engine DB did not know", *t.Rows, strings.Join(t.Compare, ", "))
		case t.Changed != nil:
			detail = fmt.Sprintf("%d of %d rows get another hash over %s", *t.Changed, *t.Rows, strings.Join(t.Compare, ", "))
		case len(t.Added) > 0:
			detail = "adds " + strings.Join(t.Added, ", ")
		case t.Status == engine.TargetLeft:
			detail = "has all columns"
		}
		rows = append(rows, []string{s.state(t.Status), t.Target, detail})
	}
	if len(rows) == 0 {
		return "no active task names a target\n"
	}
	b.WriteString(s.table([]string{"STATE", "TARGET", "DETAIL"}, rows))
	format := "\n%d done, %d left as they were, %d failed\n"
	if doc.DryRun {
		format = "\ndry run, nothing was changed: %d to do, %d left as they are, %d would fail\n"
	}
	fmt.Fprintf(&b, format, doc.Done, doc.Left, doc.Failed)
	return b.String()
}
