package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/engine/store/storetest"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/migrations"
)

var ctx = context.Background()

// addressVariable names the Engine DB that this test binary migrates instead of testing anything.
const addressVariable = "ETL_CRAFT_TEST_MIGRATE"

func TestMain(m *testing.M) {
	if os.Getenv(addressVariable) != "" {
		os.Args = []string{os.Args[0], "-test.run", "^TestMigrateInChild$"}
	}
	os.Exit(m.Run())
}

func TestMigrateInChild(t *testing.T) {
	address := os.Getenv(addressVariable)
	if address == "" {
		t.Skip("the other half of TestManyProcesses")
	}
	if _, err := up(storetest.At(t, address), project()); err != nil {
		t.Fatal(err)
	}
}

func file(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("-- +goose Up\n" + sql)} }

// project has two migrations that name CFG_ tables bare.
func project() fstest.MapFS {
	return fstest.MapFS{
		"0001_sales.sql": file(`
INSERT INTO CFG_PIPELINES (PIPELINE_CODE, PIPELINE_NAME, REFRESH_TYPE) VALUES ('SALES', 'Sales', 'FULL');
INSERT INTO CFG_TASKS (TASK_CODE, TASK_TYPE, PIPELINE_ID, HANDLER)
SELECT v.column1, v.column2, p.PIPELINE_ID, 'SQL'
FROM (VALUES ('extract', 'INGESTION'), ('load', 'ETL')) v
LEFT JOIN CFG_PIPELINES p ON p.PIPELINE_CODE = 'SALES' AND p.ACTIVE_FLAG = 'Y';
`),
		"0002_edge.sql": file(`
INSERT INTO CFG_TASK_DEPENDENCY (PIPELINE_ID, TASK_ID, DEPENDS_ON_TASK_ID, DEPENDENCY_TYPE)
SELECT l.PIPELINE_ID, l.TASK_ID, e.TASK_ID, 'SUCCESS'
FROM CFG_TASKS l JOIN CFG_TASKS e ON e.PIPELINE_ID = l.PIPELINE_ID
WHERE l.TASK_CODE = 'load' AND e.TASK_CODE = 'extract';
`),
		"README.md": &fstest.MapFile{Data: []byte("not a migration")},
	}
}

func up(e *storetest.Engine, project fs.FS) (migrations.Report, error) {
	return migrations.Up(ctx, migrations.Target{
		Store: e.StoreToMigrate(), Locker: e.Locker(), Project: project, Actor: store.Actor{Name: "ann", Kind: "HUMAN"}})
}

func mustUp(t *testing.T, e *storetest.Engine, project fs.FS) migrations.Report {
	t.Helper()
	report, err := up(e, project)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func wantCode(t *testing.T, err error, code fault.Code, words ...string) {
	t.Helper()
	if !fault.Has(err, code) {
		t.Fatalf("want %s, got %v", code, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%q is not in: %v", w, err)
		}
	}
}

func TestUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, e *storetest.Engine) {
		if _, err := e.TryStore(); !fault.Has(err, fault.EngineNotMigrated) || fault.As(err).Hint != "etl-craft migrate" {
			t.Fatal(err)
		}
		engine := []string{"001_engine.sql", "002_guards.sql", "003_metadata_changes.sql", "004_action_runs.sql", "005_gate_wait_until.sql",
			"006_notifications.sql", "007_purge.sql"}
		report := mustUp(t, e, project())
		if diff := cmp.Diff(migrations.Report{Engine: engine, Project: []string{"0001_sales.sql", "0002_edge.sql"}}, report); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(migrations.Report{}, mustUp(t, e, project())); diff != "" {
			t.Fatal(diff)
		}
		s := e.Store()
		g, err := s.Graph(ctx, "SALES")
		if err != nil {
			t.Fatal(err)
		}
		if g.Pipeline.Origin != "migration 0001_sales.sql" || g.Task("load").DependsOn[0].TaskCode != "extract" {
			t.Fatalf("%+v", g)
		}
		if who := storetest.Value(t, s, "SELECT CREATED_BY FROM {{schema}}.CFG_PIPELINES"); who != "ann" {
			t.Fatalf("created by %q", who)
		}
		got := storetest.Value(t, s, `SELECT ACTOR || ' ' || ACTOR_KIND || ' ' || ORIGIN || ' ' || ROW_KEY
			FROM {{schema}}.AUD_METADATA_CHANGES ORDER BY CHANGE_ID DESC LIMIT 1`)
		if got != "ann HUMAN migration 0002_edge.sql SALES.load <- SALES.extract on SUCCESS" {
			t.Fatal(got)
		}
		// Whoever writes later by hand is not taken for the migration.
		storetest.Exec(t, s, "UPDATE {{schema}}.CFG_PIPELINES SET PIPELINE_NAME = 'x'")
		if who := storetest.Value(t, s, "SELECT UPDATED_BY FROM {{schema}}.CFG_PIPELINES"); who == "ann" {
			t.Fatal("the session of the migration is still there")
		}
	})
}

func TestBothSidesHaveTheSameFilesAndVersion(t *testing.T) {
	highest := map[string]string{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		files, err := fs.Glob(os.DirFS(dialect), "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		highest[dialect] = strings.Join(files, " ")
		if len(files) != store.EngineVersion {
			t.Fatalf("store.EngineVersion is %d, %s has %v", store.EngineVersion, dialect, files)
		}
	}
	if highest["sqlite"] != highest["postgres"] {
		t.Fatal(highest)
	}
}

func TestDryRun(t *testing.T) {
	storetest.Each(t, func(t *testing.T, e *storetest.Engine) {
		target := migrations.Target{Store: e.StoreToMigrate(), Project: project(), DryRun: true}
		report, err := migrations.Up(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Engine) != store.EngineVersion || len(report.Project) != 2 {
			t.Fatal(report)
		}
		if _, err := e.TryStore(); !fault.Has(err, fault.EngineNotMigrated) {
			t.Fatal(err)
		}
		mustUp(t, e, project())
		report, err = migrations.Up(ctx, target)
		if err != nil || report.Engine != nil || report.Project != nil {
			t.Fatal(report, err)
		}
	})
}

func TestChangedFilesStopEverything(t *testing.T) {
	storetest.Each(t, func(t *testing.T, e *storetest.Engine) {
		mustUp(t, e, project())
		pending := file("INSERT INTO CFG_PIPELINES (PIPELINE_CODE, PIPELINE_NAME, REFRESH_TYPE) VALUES ('NEW', 'x', 'FULL');")

		edited := project()
		edited["0003_new.sql"] = pending
		edited["0001_sales.sql"] = file("SELECT 1;")
		_, err := up(e, edited)
		wantCode(t, err, fault.MigrationChanged, "0001_sales.sql", "edited")

		missing := project()
		missing["0003_new.sql"] = pending
		delete(missing, "0002_edge.sql")
		_, err = up(e, missing)
		wantCode(t, err, fault.MigrationChanged, "0002_edge.sql", "missing")

		renamed := project()
		renamed["0002_other.sql"] = renamed["0002_edge.sql"]
		delete(renamed, "0002_edge.sql")
		_, err = up(e, renamed)
		wantCode(t, err, fault.MigrationChanged, "0002_edge.sql", "0002_other.sql")

		_, err = up(e, nil)
		wantCode(t, err, fault.MigrationChanged, "0001_sales.sql")

		if n := storetest.Value(t, e.Store(), "SELECT COUNT(*) FROM {{schema}}.CFG_PIPELINES"); n != "1" {
			t.Fatalf("%s pipelines: the new file was applied", n)
		}
	})
}

func TestFailingFile(t *testing.T) {
	storetest.Each(t, func(t *testing.T, e *storetest.Engine) {
		files := project()
		files["0003_bad.sql"] = file(`
UPDATE CFG_PIPELINES SET PIPELINE_NAME = 'half';
INSERT INTO NO_SUCH_TABLE (X) VALUES (1);
`)
		files["0004_never.sql"] = file("UPDATE CFG_PIPELINES SET PIPELINE_NAME = 'never';")
		report, err := up(e, files)
		wantCode(t, err, fault.MigrationFailed, "0003_bad.sql")
		if !strings.Contains(strings.ToLower(err.Error()), "no_such_table") {
			t.Fatalf("the cause is not told: %v", err)
		}
		if diff := cmp.Diff([]string{"0001_sales.sql", "0002_edge.sql"}, report.Project); diff != "" {
			t.Fatal(diff)
		}
		s := e.Store()
		if name := storetest.Value(t, s, "SELECT PIPELINE_NAME FROM {{schema}}.CFG_PIPELINES"); name != "Sales" {
			t.Fatalf("half a file was applied: %s", name)
		}
		files["0003_bad.sql"] = file("UPDATE CFG_PIPELINES SET PIPELINE_NAME = 'mended';")
		delete(files, "0004_never.sql")
		mustUp(t, e, files)
		if name := storetest.Value(t, s, "SELECT PIPELINE_NAME FROM {{schema}}.CFG_PIPELINES"); name != "mended" {
			t.Fatal(name)
		}
	})
}

func TestFilesThatAreRefused(t *testing.T) {
	e := storetest.SQLite(t).Migrated()
	for name, files := range map[string]fstest.MapFS{
		"+goose NO TRANSACTION": {"0001_a.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1;\n")}},
		"number":                {"sales.sql": file("SELECT 1;")},
		"same number":           {"0001_a.sql": file("SELECT 1;"), "1_b.sql": file("SELECT 1;")},
		"0001_a.sql":            {"0001_a.sql": {Data: []byte("SELECT 1;\n")}},
	} {
		_, err := up(e, files)
		wantCode(t, err, fault.MigrationFailed)
		if !strings.Contains(err.Error()+fault.As(err).Hint, name) {
			t.Errorf("%q is not in: %v", name, err)
		}
	}
	mustUp(t, e, fstest.MapFS{"0002_b.sql": file("SELECT 1;")})
	_, err := up(e, fstest.MapFS{"0002_b.sql": file("SELECT 1;"), "0001_a.sql": file("SELECT 1;")})
	wantCode(t, err, fault.MigrationFailed, "0001_a.sql", "0002_b.sql")
}

func TestOtherVersions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, e *storetest.Engine) {
		mustUp(t, e, nil)
		s := e.StoreToMigrate()
		storetest.Exec(t, s, `INSERT INTO {{schema}}.SCHEMA_MIGRATIONS (SOURCE, VERSION, FILE_NAME, CHECKSUM, APPLIED_AT)
			SELECT SOURCE, 999, '999_future.sql', CHECKSUM, APPLIED_AT FROM {{schema}}.SCHEMA_MIGRATIONS WHERE VERSION = 1`)
		_, err := e.TryStore()
		wantCode(t, err, fault.EngineNewer, "999")
		_, err = up(e, nil)
		wantCode(t, err, fault.EngineNewer, "999")
		storetest.Exec(t, s, `DELETE FROM {{schema}}.SCHEMA_MIGRATIONS WHERE VERSION > 2`)
		_, err = e.TryStore()
		wantCode(t, err, fault.EngineNotMigrated)
	})
}

func TestManyProcesses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, e *storetest.Engine) {
		const processes = 4
		children := make([]*exec.Cmd, processes)
		outputs := make([]strings.Builder, processes)
		for i := range children {
			children[i] = exec.Command(os.Args[0])
			children[i].Env = append(os.Environ(), addressVariable+"="+e.Address())
			children[i].Stdout, children[i].Stderr = &outputs[i], &outputs[i]
			if err := children[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		var errs []error
		for i, c := range children {
			if err := c.Wait(); err != nil {
				errs = append(errs, err)
				t.Log(outputs[i].String())
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		s := e.Store()
		for query, want := range map[string]string{
			"SELECT COUNT(*) FROM {{schema}}.SCHEMA_MIGRATIONS": fmt.Sprint(store.EngineVersion + 2),
			"SELECT COUNT(*) FROM {{schema}}.CFG_TASKS":         "2",
		} {
			if got := storetest.Value(t, s, query); got != want {
				t.Fatalf("%s: %s", query, got)
			}
		}
	})
}

func TestNewFileIsPrivateAndNotMadeByReading(t *testing.T) {
	e := storetest.SQLite(t)
	if _, err := e.TryStore(); !fault.Has(err, fault.EngineNotMigrated) {
		t.Fatal(err)
	}
	if _, err := os.Stat(e.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("opening made the file")
	}
	storetest.Exec(t, e.Migrated().Store(), "UPDATE CFG_PIPELINES SET PIPELINE_NAME = 'x'")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(e.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Fatalf("%s%s is %s", e.Path(), suffix, info.Mode())
		}
	}
}
