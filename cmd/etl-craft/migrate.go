package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine/store"
	storepostgres "github.com/etl-craft/etl-craft/engine/store/postgres"
	storesqlite "github.com/etl-craft/etl-craft/engine/store/sqlite"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/migrations"
)

// migrateDocument is etl-craft/migrate/1: the files that were applied or, after a dry run, would be.
type migrateDocument struct {
	Schema   string   `json:"schema"`
	DryRun   bool     `json:"dry_run"`
	Engine   []string `json:"engine"`
	Project  []string `json:"project"`
	IDsAbove *int64   `json:"ids_above"`
}

// highestIDsAbove leaves room for more runs than there will be, and every id exact in readers whose numbers have 53 bits.
const highestIDsAbove = 1_000_000_000_000_000

func (p *program) migrateCommand() *cli.Command {
	return &cli.Command{
		Name: "migrate", Usage: "creates or upgrades the Engine DB, then applies the project's migrations",
		Description: "etl-craft migrate\netl-craft migrate --dry-run\netl-craft migrate --ids-above 52000000",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "only lists what would be applied"},
			&cli.Int64Flag{Name: "ids-above", Usage: fmt.Sprintf("makes the next run and task-run ids higher than `N`, at most %d", highestIDsAbove)},
		},
		Action: func(c *cli.Context) error {
			if above := c.Int64("ids-above"); c.IsSet("ids-above") && (above < 1 || above > highestIDsAbove) {
				return fault.New(fault.Usage, "--ids-above is %d; it takes a whole number from 1 to %d", above, highestIDsAbove)
			}
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			doc, err := migrate(c.Context, cfg, c.Bool("dry-run"), c.Int64("ids-above"))
			if err != nil {
				return err
			}
			return p.answer(doc, doc.text, nil)
		},
	}
}

// migrate brings the Engine DB up to date and, unless idsAbove is 0, raises its ids.
func migrate(ctx context.Context, cfg *config.Config, dryRun bool, idsAbove int64) (doc *migrateDocument, err error) {
	who, err := actor()
	if err != nil {
		return nil, err
	}
	db, done, err := openToMigrate(ctx, cfg, dryRun)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	target := migrations.Target{Store: db, Actor: who, DryRun: dryRun}
	folder := filepath.Join(cfg.Dir, "migrations")
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		target.Project = os.DirFS(folder)
	}
	if !dryRun {
		locker, err := openLocker(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer func() { _ = locker.Close() }()
		target.Locker = locker
	}
	report, err := migrations.Up(ctx, target)
	if err == nil && idsAbove != 0 && !dryRun {
		err = db.RaiseIDs(ctx, idsAbove)
	}
	doc = &migrateDocument{
		Schema: "etl-craft/migrate/1", DryRun: dryRun,
		Engine: append([]string{}, report.Engine...), Project: append([]string{}, report.Project...), IDsAbove: orNullNumber(idsAbove),
	}
	if !dryRun {
		err = errors.Join(err, doc.record(ctx, db, who, err))
	}
	return doc, err
}

// openToMigrate opens the Engine DB whatever is in it. A dry run looks at an empty one instead of making a file.
func openToMigrate(ctx context.Context, cfg *config.Config, dryRun bool) (*store.Store, func() error, error) {
	if cfg.Engine.Type == config.Postgres {
		db, err := storepostgres.OpenToMigrate(ctx, engineServer(cfg))
		if err != nil {
			return nil, nil, err
		}
		return db, db.Close, nil
	}
	path := cfg.Engine.Path
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, os.ErrNotExist) {
		return nil, nil, fault.New(fault.EngineUnreachable, "the folder of the Engine DB %s does not exist", path).
			WithHint("mkdir -p %s", shellWord(filepath.Dir(path)))
	}
	remove := func() error { return nil }
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && dryRun {
		empty, err := os.MkdirTemp("", "etl-craft-")
		if err != nil {
			return nil, nil, err
		}
		path = filepath.Join(empty, "engine.db")
		remove = func() error { return os.RemoveAll(empty) }
	}
	db, err := storesqlite.OpenToMigrate(ctx, path)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return db, func() error { return errors.Join(db.Close(), remove()) }, nil
}

// record keeps a migration that changed something, or failed, among the commands of the Engine DB, which has a place for
// it only once its own tables exist.
func (d *migrateDocument) record(ctx context.Context, db *store.Store, who store.Actor, failed error) error {
	if failed == nil && len(d.Engine)+len(d.Project) == 0 && d.IDsAbove == nil || db.CheckVersion(ctx) != nil {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	arguments, err := json.Marshal(d)
	if err != nil {
		return err
	}
	id, err := db.BeginAction(ctx, store.ActionRecord{Actor: who, Host: host, Command: "migrate", Arguments: string(arguments)})
	if err != nil {
		return err
	}
	outcome := "DONE"
	if failed != nil {
		outcome = string(fault.As(failed).Code)
	}
	return db.EndAction(ctx, id, outcome, fault.ExitCode(failed))
}

func (d *migrateDocument) text() string {
	var b strings.Builder
	verb := "applied"
	if d.DryRun {
		verb = "would apply"
	}
	for _, f := range d.Engine {
		fmt.Fprintf(&b, "%s engine migration %s\n", verb, f)
	}
	for _, f := range d.Project {
		fmt.Fprintf(&b, "%s migrations/%s\n", verb, f)
	}
	if len(d.Engine)+len(d.Project) == 0 {
		b.WriteString("the Engine DB is up to date\n")
	}
	if d.IDsAbove != nil {
		verb := "are"
		if d.DryRun {
			verb = "would be"
		}
		fmt.Fprintf(&b, "the next ids %s above %d\n", verb, *d.IDsAbove)
	}
	return b.String()
}

func orNullNumber(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
