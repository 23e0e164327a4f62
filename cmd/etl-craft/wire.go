package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
	storepostgres "github.com/etl-craft/etl-craft/engine/store/postgres"
	storesqlite "github.com/etl-craft/etl-craft/engine/store/sqlite"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	lockspostgres "github.com/etl-craft/etl-craft/locks/postgres"
	lockssqlite "github.com/etl-craft/etl-craft/locks/sqlite"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/databricks"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
	"github.com/etl-craft/etl-craft/warehouses/duckdbiceberg"
	"github.com/etl-craft/etl-craft/warehouses/postgres"
	"github.com/etl-craft/etl-craft/warehouses/snowflake"
	"github.com/etl-craft/etl-craft/warehouses/trino"
)

// allHandlers are the kinds of tasks that exist.
func allHandlers() []handlers.Handler { return []handlers.Handler{sql.Handler{}} }

// needs says what of a project a command uses, so that nothing else is opened.
type needs struct {
	store    bool
	locker   bool
	looks    bool // writes nothing to the warehouse, and makes none
	observer engine.Observer
	stop     <-chan struct{}
	logTo    io.Writer // nil is stderr
	quiet    bool      // warnings and errors only, whatever --log-level says
}

// openProject is a project whose parts a command has asked for; it has to be closed.
type openProject struct {
	*engine.Engine
	closers []func() error
}

// loadConfig finds and reads the configuration that the flags mean.
func loadConfig(c *cli.Context) (*config.Config, error) {
	path, err := config.Find(c.String("config"))
	if err != nil {
		return nil, err
	}
	return config.Load(path, config.Options{Profile: c.String("profile")})
}

// open opens the project that the flags mean.
func (p *program) open(c *cli.Context, n needs) (*openProject, error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return nil, err
	}
	return p.openConfigured(c, cfg, n)
}

// deps are what an engine works with that needs no opening.
func (p *program) deps(c *cli.Context, cfg *config.Config, n needs) (deps engine.Deps, err error) {
	deps = engine.Deps{
		Config: cfg, Database: databaseOf(cfg), Handlers: allHandlers(), LogFormat: c.String("log-format"), LogLevel: logLevel(c),
		Observer: n.observer, Stop: n.stop,
	}
	deps.Log = p.logger(c, n)
	deps.Actor, err = actor()
	return deps, err
}

func (p *program) openConfigured(c *cli.Context, cfg *config.Config, n needs) (_ *openProject, err error) {
	deps, err := p.deps(c, cfg, n)
	if err != nil {
		return nil, err
	}
	if deps.Dialect, deps.OpenWarehouse, err = warehouseOf(cfg, deps.Log, n.looks); err != nil {
		return nil, err
	}
	opened := &openProject{}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.close())
		}
	}()
	if n.store {
		if deps.Store, err = openStore(c.Context, cfg); err != nil {
			return nil, err
		}
		opened.closers = append(opened.closers, deps.Store.Close)
	}
	if n.locker {
		if deps.Locker, err = openLocker(c.Context, cfg); err != nil {
			return nil, err
		}
		opened.closers = append(opened.closers, deps.Locker.Close)
	}
	opened.Engine = engine.New(deps)
	opened.closers = append(opened.closers, opened.Engine.Close)
	return opened, nil
}

func (p *openProject) close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	return errors.Join(errs...)
}

// closeInto closes the project at the end of a command that has answered, whose error it completes.
func (p *openProject) closeInto(err *error) {
	if failed := p.close(); failed != nil && *err == nil {
		*err = &answered{failed}
	}
}

func (p *program) logger(c *cli.Context, n needs) *slog.Logger {
	to := n.logTo
	if to == nil {
		to = p.err.w
	}
	level := logLevel(c)
	if n.quiet {
		level = max(level, slog.LevelWarn)
	}
	return slog.New(engine.NewLogHandler(to, c.String("log-format"), level))
}

// actor is who asks: $ETL_CRAFT_ACTOR, else user@host; its kind is $ETL_CRAFT_ACTOR_KIND, else HUMAN.
func actor() (store.Actor, error) {
	a := store.Actor{Name: os.Getenv("ETL_CRAFT_ACTOR"), Kind: os.Getenv("ETL_CRAFT_ACTOR_KIND")}
	if a.Name == "" {
		a.Name = "unknown"
		if u, err := user.Current(); err == nil {
			a.Name = u.Username
		}
		if host, err := os.Hostname(); err == nil {
			a.Name += "@" + host
		}
		if len(a.Name) > 128 {
			a.Name = a.Name[:128]
		}
	}
	if len(a.Name) > 128 || strings.ContainsFunc(a.Name, unicode.IsControl) {
		return a, fault.New(fault.ConfigInvalid, "$ETL_CRAFT_ACTOR is longer than 128 bytes or has control characters")
	}
	switch a.Kind {
	case "":
		a.Kind = "HUMAN"
	case "HUMAN", "SCHEDULE", "ORCHESTRATOR", "WORKER", "SYSTEM":
	default:
		return a, fault.New(fault.ConfigInvalid, "$ETL_CRAFT_ACTOR_KIND is %q", a.Kind).
			WithHint("it takes HUMAN, SCHEDULE, ORCHESTRATOR, WORKER, SYSTEM")
	}
	return a, nil
}

func openStore(ctx context.Context, cfg *config.Config) (*store.Store, error) {
	if cfg.Engine.Type == config.Postgres {
		return storepostgres.Open(ctx, engineServer(cfg))
	}
	return storesqlite.Open(ctx, cfg.Engine.Path)
}

func openLocker(ctx context.Context, cfg *config.Config) (locks.Locker, error) {
	if cfg.Engine.Type != config.Postgres {
		return lockssqlite.Open(cfg.Engine.Path + ".locks")
	}
	server := engineServer(cfg)
	direct, err := server.Direct()
	if err != nil {
		return nil, err
	}
	return lockspostgres.Open(ctx, direct, server.SchemaName())
}

func engineServer(cfg *config.Config) storepostgres.Config {
	e := &cfg.Engine
	return storepostgres.Config{Address: e.ConnString(), DirectAddress: e.DirectConnString(), Schema: e.Schema}
}

// databaseOf is the database of the configured warehouse, as its statements name it.
func databaseOf(cfg *config.Config) string {
	w := cfg.Warehouse
	switch {
	case w.Catalog != "":
		return w.Catalog
	case w.Type == config.DuckDB:
		return duckdb.Database(w.Path)
	case w.Type == config.Snowflake:
		return snowflake.Database(w.Database)
	}
	return w.DatabaseName()
}

// warehouseOf is the dialect of the configured warehouse and how to connect to it.
func warehouseOf(cfg *config.Config, log *slog.Logger, looks bool) (*warehouses.Dialect, func(context.Context) (warehouses.Warehouse, error), error) {
	w := cfg.Warehouse
	switch {
	case w.Type == config.DuckDB && w.TableFormat != config.Iceberg:
		return duckdb.Dialect, func(context.Context) (warehouses.Warehouse, error) {
			return duckdb.Open(duckdb.Options{
				Path: w.Path, Threads: w.Threads, MemoryLimit: w.MemoryLimit, Wait: cfg.Orchestration.LockWait, Log: log, Looks: looks,
			})
		}, nil
	case w.Type == config.DuckDB:
		return duckdbiceberg.Dialect, func(context.Context) (warehouses.Warehouse, error) {
			return duckdbiceberg.Open(duckdbiceberg.Options{
				CatalogURI: w.CatalogURI, Warehouse: w.Warehouse, Catalog: w.Catalog,
				Token: w.Token, ClientID: w.ClientID, ClientSecret: w.ClientSecret, TokenURL: w.TokenURL,
				S3Endpoint: w.S3Endpoint, S3Region: w.S3Region, S3URLStyle: w.S3URLStyle, S3UseSSL: w.S3UseSSL, S3KeyID: w.S3KeyID, S3Secret: w.S3Secret,
				ExtensionDir: w.ExtensionDir, Threads: w.Threads, MemoryLimit: w.MemoryLimit,
			})
		}, nil
	case w.Type == config.Postgres:
		return postgres.Dialect, func(context.Context) (warehouses.Warehouse, error) {
			return postgres.Open(postgres.Options{
				URL: w.URL, Host: w.Host, Port: w.Port, Database: w.Database, User: w.User, Password: w.Password,
				SSLMode: w.SSLMode, SSLRootCert: w.SSLRootCert, SSLCert: w.SSLCert, SSLKey: w.SSLKey,
			})
		}, nil
	case w.Type == config.Trino:
		return trino.Dialect, func(context.Context) (warehouses.Warehouse, error) {
			return trino.Open(trino.Options{Host: w.Host, Port: w.Port, Catalog: w.Catalog, Schema: w.Schema, User: w.User, Password: w.Password, AccessToken: w.AccessToken, TLS: w.TLS})
		}, nil
	case w.Type == config.Databricks:
		return databricks.Dialect, func(context.Context) (warehouses.Warehouse, error) {
			return databricks.Open(databricks.Options{
				Host: w.Host, HTTPPath: w.HTTPPath, Catalog: w.Catalog, Schema: w.Schema, Token: w.Token, ClientID: w.ClientID, ClientSecret: w.ClientSecret,
			})
		}, nil
	case w.Type == config.Snowflake:
		return snowflake.Dialect, func(context.Context) (warehouses.Warehouse, error) {
			return snowflake.Open(snowflake.Options{
				Account: w.Account, User: w.User, Database: w.Database, Schema: w.Schema, Warehouse: w.Warehouse, Role: w.Role,
				Password: w.Password, Token: w.Token, PrivateKeyFile: w.PrivateKeyFile, PrivateKeyPassphrase: w.PrivateKeyPassphrase,
				Authenticator: w.Authenticator,
			})
		}, nil
	}
	return nil, nil, fault.New(fault.ConfigInvalid, "warehouse.type %s is not available in this etl-craft", w.Type).
		WithHint("available are duckdb, postgres, trino, databricks and snowflake")
}
