// Package migrations makes and upgrades the tables of the Engine DB and applies a project's own migrations to it. The
// files in sqlite and postgres have the same numbers and names and make the same tables.
//
// SCHEMA_MIGRATIONS keeps what was applied, as two streams: ENGINE, the files of this package, and PROJECT.
package migrations

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/pressly/goose/v3"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

//go:embed sqlite/*.sql postgres/*.sql
var engineFiles embed.FS

// Streams of migrations.
const (
	Engine  = "ENGINE"
	Project = "PROJECT"
)

// Target is the Engine DB to migrate.
type Target struct {
	Store  *store.Store // opened to migrate
	Locker locks.Locker // of the same Engine DB
	// Project holds the project's *.sql files, numbered like 0001_sales.sql and in goose's format; nil when there are none.
	// On PostgreSQL they run with the engine's schema as search path, so that they name CFG_ tables bare.
	Project fs.FS
	Actor   store.Actor
	DryRun  bool // only reads, and reports what would be applied
}

// Report lists the files that were applied, or would be after a dry run, in their order.
type Report struct {
	Engine  []string
	Project []string
}

// file is one migration.
type file struct {
	stream   string
	version  int64
	name     string
	checksum string // SHA-256, hex
}

func (f file) String() string {
	if f.stream == Project {
		return "migrations/" + f.name
	}
	return "engine migration " + f.name
}

// Up applies what is pending, the engine's files first, each in its own transaction together with its row in
// SCHEMA_MIGRATIONS. Several processes may call it at once: they take turns. When an applied file was edited or is
// missing, nothing is applied and the error has the code MIGRATION_CHANGED. A file whose SQL fails is MIGRATION_FAILED; the
// report then lists those applied before it. An Engine DB of a newer etl-craft is ENGINE_NEWER.
func Up(ctx context.Context, t Target) (Report, error) {
	if !t.DryRun {
		lock, err := t.Locker.Lock(ctx, locks.MigrateKey(), locks.Holder{What: "migrate"}, 0)
		if err != nil {
			return Report{}, err
		}
		defer func() { _ = lock.Release() }()
	}
	b := t.Store.Backend()
	files, err := t.files(b)
	if err != nil {
		return Report{}, err
	}
	hook := &sessionHook{dialect: b.Dialect, schema: b.Schema, actor: t.Actor}
	db := sql.OpenDB(hook.wrap(b.Direct))
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)

	ledger := &ledger{dialect: b.Dialect, schema: b.Schema, files: files}
	applied, err := ledger.applied(ctx, db)
	if err != nil {
		return Report{}, unreachable(b, err)
	}
	pending, err := compare(files, applied)
	if err != nil {
		return Report{}, err
	}
	if t.DryRun {
		return report(pending), nil
	}
	if b.Dialect == store.Postgres {
		if err := createSchema(ctx, db, b); err != nil {
			return Report{}, err
		}
	}
	for i, f := range pending {
		ledger.stream, hook.file = f.stream, f
		if err := apply(ctx, db, t.folder(b, f.stream), ledger, f); err != nil {
			return report(pending[:i]), err
		}
	}
	return report(pending), nil
}

func report(files []file) Report {
	var r Report
	for _, f := range files {
		if f.stream == Engine {
			r.Engine = append(r.Engine, f.name)
		} else {
			r.Project = append(r.Project, f.name)
		}
	}
	return r
}

func unreachable(b store.Backend, err error) error {
	if b.Classify(err) != store.Unreachable {
		return err
	}
	return fault.New(fault.EngineUnreachable, "the Engine DB %s cannot be reached: %w", b.Where, err).WithHint("look at engine: in etl-craft config show")
}

func (t Target) folder(b store.Backend, stream string) fs.FS {
	if stream == Project {
		return t.Project
	}
	folder, err := fs.Sub(engineFiles, string(b.Dialect))
	if err != nil {
		panic(err)
	}
	return folder
}

// files lists both streams, each in order of its versions.
func (t Target) files(b store.Backend) ([]file, error) {
	engine, err := list(Engine, t.folder(b, Engine))
	if err != nil || t.Project == nil {
		return engine, err
	}
	project, err := list(Project, t.Project)
	return append(engine, project...), err
}

// Outside a transaction a migration could be half applied, and would not have the search path.
var noTransaction = regexp.MustCompile(`(?mi)^\s*--\s*\+goose\s+no\s+transaction`)

var upMark = regexp.MustCompile(`(?mi)^\s*--\s*\+goose\s+up`)

func list(stream string, folder fs.FS) ([]file, error) {
	names, err := fs.Glob(folder, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	var files []file
	for _, name := range names {
		f := file{stream: stream, name: path.Base(name)}
		if f.version, err = goose.NumericComponent(name); err != nil {
			return nil, fault.New(fault.MigrationFailed, "%s does not begin with a number and _", f).
				WithHint("rename it, for example to 0001_%s", f.name)
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fault.New(fault.MigrationFailed, "%s cannot be read: %w", f, err)
		}
		if noTransaction.Match(content) {
			return nil, fault.New(fault.MigrationFailed, "%s asks for no transaction, but each file is applied in one", f).
				WithHint("remove the line +goose NO TRANSACTION")
		}
		if !upMark.Match(content) {
			return nil, fault.New(fault.MigrationFailed, "%s has no line -- +goose Up", f).
				WithHint("put it above the statements")
		}
		sum := sha256.Sum256(content)
		f.checksum = hex.EncodeToString(sum[:])
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.version, b.version) })
	for i := 1; i < len(files); i++ {
		if files[i].version == files[i-1].version {
			return nil, fault.New(fault.MigrationFailed, "%s and %s have the same number", files[i-1], files[i]).
				WithHint("give one of them a higher number")
		}
	}
	return files, nil
}

// compare returns the files that are not applied yet, after it made sure that the applied ones are as they were.
func compare(files, applied []file) ([]file, error) {
	type key struct {
		stream  string
		version int64
	}
	known := map[key]file{}
	for _, f := range files {
		known[key{f.stream, f.version}] = f
	}
	done := map[key]bool{}
	highest := map[string]file{}
	for _, a := range applied {
		k := key{a.stream, a.version}
		f, ok := known[k]
		switch {
		case !ok && a.stream == Engine && a.version > store.EngineVersion:
			return nil, fault.New(fault.EngineNewer, "the Engine DB has migration %d, this etl-craft knows %d", a.version, store.EngineVersion).
				WithHint("use the etl-craft that migrated it, or a newer one")
		case !ok:
			return nil, fault.New(fault.MigrationChanged, "%s was applied and is missing now", a).
				WithHint("bring the file back as it was")
		case f.name != a.name:
			return nil, fault.New(fault.MigrationChanged, "%s was applied and is named %s now", a, f.name).
				WithHint("rename it back to %s", a.name)
		case f.checksum != a.checksum:
			return nil, fault.New(fault.MigrationChanged, "%s was edited after it was applied", a).
				WithHint("bring the file back as it was, and put the change into a new file")
		}
		done[k] = true
		if a.version > highest[a.stream].version {
			highest[a.stream] = a
		}
	}
	var pending []file
	for _, f := range files {
		if done[key{f.stream, f.version}] {
			continue
		}
		if last := highest[f.stream]; f.version < last.version {
			return nil, fault.New(fault.MigrationFailed, "%s is new, but comes before %s, which is applied already", f, last.name).
				WithHint("give it a number above %d", last.version)
		}
		pending = append(pending, f)
	}
	return pending, nil
}

func apply(ctx context.Context, db *sql.DB, folder fs.FS, ledger *ledger, f file) error {
	provider, err := goose.NewProvider(goose.DialectCustom, db, folder, goose.WithStore(ledger), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fault.New(fault.MigrationFailed, "%s cannot be read: %w", f, err)
	}
	_, err = provider.ApplyVersion(ctx, f.version, true)
	if err == nil {
		return nil
	}
	cause := err
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		cause = partial.Err
	}
	return fault.New(fault.MigrationFailed, "%s failed, nothing of it was applied: %w", f, cause).
		WithHint("correct the file, then etl-craft migrate")
}

// createSchema makes the schema when it is missing: whoever may not create schemas can still migrate an existing one.
func createSchema(ctx context.Context, db *sql.DB, b store.Backend) error {
	var exists bool
	err := db.QueryRowContext(ctx, "SELECT to_regnamespace($1) IS NOT NULL", b.Schema).Scan(&exists)
	if err != nil {
		return unreachable(b, err)
	}
	if exists {
		return nil
	}
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+b.Schema); err != nil {
		return fault.New(fault.MigrationFailed, "the schema %s of the Engine DB is missing and cannot be created: %w", b.Schema, err).
			WithHint("as an administrator: CREATE SCHEMA %s AUTHORIZATION the_engine_user", b.Schema)
	}
	return nil
}
