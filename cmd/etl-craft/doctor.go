package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
	storepostgres "github.com/etl-craft/etl-craft/engine/store/postgres"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "checks configuration, Engine DB, warehouse, privileges, folders and what was left behind, by connecting",
		Description: "etl-craft doctor\netl-craft doctor --fix\netl-craft doctor --target sales.customers\netl-craft doctor --grants > grants.sql",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "fix", Usage: "removes what nobody can be using any more, and says what; without it nothing is changed"},
			&cli.StringFlag{Name: "target", Usage: "also counts merge keys that stand more than once in `TABLE`, which reads all of it"},
			&cli.BoolFlag{Name: "grants", Usage: "only prints the statements that make roles with no more privileges than they need"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("grants") {
				if c.Bool("fix") || c.IsSet("target") {
					return fault.New(fault.Usage, "--grants stands alone")
				}
				return p.grants(c)
			}
			doc, err := p.examine(c)
			if doc == nil {
				return err
			}
			return p.answer(doc, func() string { return doctorText(doc, p.out) }, err)
		},
	}
}

// examine opens what of the project can be opened, and looks at all of it.
func (p *program) examine(c *cli.Context) (doc *engine.DoctorDocument, err error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return engine.DoctorWithoutConfig(err)
	}
	deps, err := p.deps(c, cfg, needs{quiet: true})
	if err != nil {
		return nil, err
	}
	req := engine.DoctorRequest{Fix: c.Bool("fix"), Target: c.String("target"), Pending: func(ctx context.Context) ([]string, []string, error) {
		pending, err := migrate(ctx, cfg, true, 0)
		if err != nil {
			return nil, nil, err
		}
		return pending.Engine, pending.Project, nil
	}}
	deps.Dialect, deps.OpenWarehouse, req.WarehouseError = warehouseOf(cfg, deps.Log, true)
	project := &openProject{}
	if deps.Store, req.StoreError = openStore(c.Context, cfg); req.StoreError == nil {
		project.closers = append(project.closers, deps.Store.Close)
		if deps.Locker, req.LockerError = openLocker(c.Context, cfg); req.LockerError == nil {
			project.closers = append(project.closers, deps.Locker.Close)
		}
	}
	project.Engine = engine.New(deps)
	project.closers = append(project.closers, project.Engine.Close)
	defer func() { err = errors.Join(err, project.close()) }()
	return project.Doctor(c.Context, req)
}

func doctorText(doc *engine.DoctorDocument, s *screen) string {
	var rows [][]string
	for _, check := range doc.Checks {
		rows = append(rows, []string{s.state(check.Status), check.Area, check.Check, check.Message})
	}
	lines := slices.Collect(strings.Lines(s.table([]string{"STATUS", "AREA", "CHECK", "MESSAGE"}, rows)))
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		if i > 0 && doc.Checks[i-1].Hint != nil {
			fmt.Fprintf(&b, "  %s %s\n", s.paint(text.FgCyan, "hint:"), *doc.Checks[i-1].Hint)
		}
	}
	b.WriteString("\n")
	for _, f := range doc.Fixed {
		b.WriteString(f + "\n")
	}
	fmt.Fprintf(&b, "%d OK, %d WARN, %d FAIL, %d SKIPPED\n", doc.OK, doc.Warnings, doc.Failures, doc.Skipped)
	return b.String()
}

// grants prints statements for administrators. An Engine DB that is not migrated yet will do.
func (p *program) grants(c *cli.Context) (err error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	deps, err := p.deps(c, cfg, needs{})
	if err != nil {
		return err
	}
	if deps.Dialect, _, err = warehouseOf(cfg, deps.Log, true); err != nil {
		return err
	}
	if deps.Store, err = openUnmigrated(c.Context, cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, deps.Store.Close()) }()
	doc, err := engine.New(deps).Grants(c.Context)
	if err != nil {
		return err
	}
	return p.answer(doc, func() string {
		return grantsText("Engine DB", doc.Engine) + "\n" + grantsText("Warehouse", doc.Warehouse)
	}, nil)
}

// openUnmigrated opens an Engine DB that may lack tables; a file has to be there.
func openUnmigrated(ctx context.Context, cfg *config.Config) (*store.Store, error) {
	if cfg.Engine.Type == config.Postgres {
		return storepostgres.OpenToMigrate(ctx, engineServer(cfg))
	}
	return openStore(ctx, cfg)
}

func grantsText(what string, on engine.GrantsOn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s: %s\n", what, on.Where)
	for _, n := range on.Notes {
		fmt.Fprintf(&b, "-- %s\n", n)
	}
	for _, r := range on.Roles {
		fmt.Fprintf(&b, "\n-- %s: for %s\n", r.Role, r.For)
		for _, statement := range r.Statements {
			b.WriteString(statement + ";\n")
		}
	}
	return b.String()
}
