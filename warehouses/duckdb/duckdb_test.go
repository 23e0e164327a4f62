package duckdb

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

var ctx = context.Background()

// The test binary plays the other processes: $DUCKDB_TEST_ROLE says what it does with $DUCKDB_TEST_FILE.
func TestMain(m *testing.M) {
	switch os.Getenv("DUCKDB_TEST_ROLE") {
	case "insert":
		insertRows(os.Getenv("DUCKDB_TEST_FILE"), os.Getenv("DUCKDB_TEST_NAME"))
		os.Exit(0)
	case "alter":
		alterAndDie(os.Getenv("DUCKDB_TEST_FILE"))
	case "hold":
		db, err := sql.Open("duckdb", os.Getenv("DUCKDB_TEST_FILE"))
		if err == nil {
			err = db.Ping()
		}
		fmt.Println("open", err)
		select {}
	}
	goleak.VerifyTestMain(m)
}

func other(t *testing.T, role, file, name string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), "DUCKDB_TEST_ROLE="+role, "DUCKDB_TEST_FILE="+file, "DUCKDB_TEST_NAME="+name)
	c.Stderr = os.Stderr
	return c
}

const insertsPerProcess = 30

// insertRows runs many short transactions from two goroutines, as two tasks would.
func insertRows(file, name string) {
	w, err := Open(Options{Path: file})
	if err != nil {
		panic(err)
	}
	var tasks sync.WaitGroup
	for task := range 2 {
		tasks.Go(func() {
			for i := range insertsPerProcess {
				s, err := w.Session(ctx)
				if err != nil {
					panic(err)
				}
				for _, text := range []warehouses.SQL{"BEGIN", warehouses.SQL(fmt.Sprintf("INSERT INTO seen VALUES ('%s', %d)", name, task*1000+i)), "COMMIT"} {
					if _, err := s.Exec(ctx, text); err != nil {
						panic(err)
					}
				}
				if err := s.Close(); err != nil {
					panic(err)
				}
			}
		})
	}
	tasks.Wait()
	if err := w.Close(); err != nil {
		panic(err)
	}
}

func openWarehouse(t *testing.T, file string) warehouses.Warehouse {
	t.Helper()
	w, err := Open(Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func openSession(t *testing.T, w warehouses.Warehouse) warehouses.Session {
	t.Helper()
	s, err := w.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestThreeProcessesShareTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.duckdb")
	w := openWarehouse(t, file)
	s := openSession(t, w)
	if _, err := s.Exec(ctx, "CREATE TABLE seen (name VARCHAR, n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	processes := []*exec.Cmd{other(t, "insert", file, "a"), other(t, "insert", file, "b")}
	for _, p := range processes {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	insertRows(file, "own") // through a second handle: the first lets it have the file
	for _, p := range processes {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	n, err := openSession(t, w).Int(ctx, "SELECT count(DISTINCT (name, n)) FROM seen")
	if err != nil || n != 3*2*insertsPerProcess {
		t.Errorf("%d rows, want %d (%v)", n, 3*2*insertsPerProcess, err)
	}
}

func TestAnotherProgramHoldsTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.duckdb")
	p := other(t, "hold", file, "")
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Process.Kill(); _ = p.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open <nil>\n" {
		t.Fatal(line, err)
	}
	outsiders = 200 * time.Millisecond
	defer func() { outsiders = 5 * time.Second }()
	if _, err := openWarehouse(t, file).Session(ctx); !fault.Has(err, fault.WarehouseLocked) {
		t.Errorf("got %v, want WAREHOUSE_LOCKED", err)
	}
}

// alterAndDie evolves a table as SCHEMA_EVOLUTION does, and is killed before anything but the log was written.
func alterAndDie(file string) {
	w, err := Open(Options{Path: file})
	if err != nil {
		panic(err)
	}
	s, err := w.Session(ctx)
	if err != nil {
		panic(err)
	}
	for _, text := range []warehouses.SQL{
		"CREATE SEQUENCE numbers", `CREATE TABLE t (a INTEGER, row_id BIGINT DEFAULT nextval('"main"."numbers"'))`, "INSERT INTO t (a) VALUES (1)",
		"BEGIN", "ALTER TABLE t ADD COLUMN b INTEGER", "DELETE FROM t", "INSERT INTO t (a, b) VALUES (2, 3)", "COMMIT",
	} {
		if _, err := s.Exec(ctx, text); err != nil {
			panic(err)
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func TestFileOpensAfterACrashBehindAnAlter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.duckdb")
	if err := other(t, "alter", file, "").Run(); err == nil {
		t.Fatal("the process was to kill itself")
	}
	rows, err := openSession(t, openWarehouse(t, file)).Rows(ctx, "SELECT a, b, row_id FROM t", 5)
	if err != nil || len(rows) != 1 || rows[0][1] != "3" {
		t.Errorf("rows %v, %v", rows, err)
	}
}

// What does not fit into memory is put beside the file, whatever the working directory is.
func TestSpillsBesideTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.duckdb")
	w, err := Open(Options{Path: file, MemoryLimit: "40MB", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	s := openSession(t, w)
	if _, err := s.Exec(ctx, "CREATE TEMP TABLE big AS SELECT i, md5(i::VARCHAR) AS m FROM range(2000000) AS t (i)"); err != nil {
		t.Fatal(err)
	}
	folder, files, err := w.(warehouses.Spiller).Spilled()
	if err != nil || len(files) == 0 || folder != file+".tmp" {
		t.Errorf("%d files were spilled into %s: %v", len(files), folder, err)
	}
	if _, err := os.Stat(".tmp"); err == nil {
		t.Error("something was put into the working directory")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file + ".tmp"); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestNamesThatDuckDBKeeps(t *testing.T) {
	for _, name := range []string{"memory.duckdb", "TEMP.db", "system"} {
		if _, err := Open(Options{Path: filepath.Join(t.TempDir(), name)}); !fault.Has(err, fault.ConfigInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfirm(t *testing.T) {
	s := openSession(t, openWarehouse(t, filepath.Join(t.TempDir(), "w.duckdb")))
	for text, read := range map[warehouses.SQL]bool{
		"SELECT 1":                             true,
		"WITH x AS (SELECT 1) SELECT * FROM x": true,
		"VALUES (1), (2)":                      true,
		"SELECT ';' -- ; DROP TABLE x":         true,
		"SELECT 1; SELECT 2":                   false,
		"DROP TABLE x":                         false,
		"INSERT INTO x VALUES (1)":             false,
		"COPY x TO 'y'":                        false,
		"SELEC 1":                              false,
	} {
		if err := s.Confirm(ctx, text); (err == nil) != read {
			t.Errorf("Confirm(%s) = %v", text, err)
		}
	}
}

// TestRollbackAfterFailure: nothing of a transaction stays behind after one of its statements failed.
func TestRollbackAfterFailure(t *testing.T) {
	s := openSession(t, openWarehouse(t, filepath.Join(t.TempDir(), "w.duckdb")))
	if err := s.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(ctx, "CREATE TABLE t AS SELECT 1 AS one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(ctx, "INSERT INTO t SELECT CAST('x' || one AS INTEGER) FROM t"); err == nil {
		t.Fatal("the conversion was to fail")
	}
	if err := s.Rollback(); err != nil {
		t.Fatal(err)
	}
	if table, err := s.Table(ctx, warehouses.QualifiedName{Database: "w", Schema: "main", Table: "t"}); err != nil || table != nil {
		t.Errorf("the table is there: %v %v", table, err)
	}
}

func TestCollidingTransactionsAreConflicts(t *testing.T) {
	w := openWarehouse(t, filepath.Join(t.TempDir(), "w.duckdb"))
	a, b := openSession(t, w), openSession(t, w)
	for _, s := range []warehouses.Session{a, b} {
		if err := s.Begin(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Exec(ctx, "CREATE SCHEMA s"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Exec(ctx, "CREATE SCHEMA s"); !fault.Has(err, fault.WriteConflict) {
		t.Errorf("got %v, want WRITE_CONFLICT", err)
	}
}

func TestCancelLeavesTheSessionUsable(t *testing.T) {
	s := openSession(t, openWarehouse(t, filepath.Join(t.TempDir(), "w.duckdb")))
	if err := s.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := s.Int(short, "SELECT count(*) FROM range(100000000000) a"); !fault.Has(err, fault.TaskCancelled) {
		t.Errorf("got %v, want TASK_CANCELLED", err)
	}
	if err := s.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Int(ctx, "SELECT 1"); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestWaitForTheFileIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.duckdb")
	openSession(t, openWarehouse(t, file))
	holder := fmt.Sprintf("process %d on host ", os.Getpid()) // the locks do not tell handles of one process from others
	var told strings.Builder
	w, err := Open(Options{Path: file, Wait: 2 * silence, Log: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Session(ctx)
	if !fault.Has(err, fault.LockTimeout) || !strings.Contains(err.Error(), holder) {
		t.Errorf("got %v, want LOCK_TIMEOUT and %s", err, holder)
	}
	if !strings.Contains(told.String(), "waits for the DuckDB file "+file+", which "+holder) {
		t.Errorf("the wait was not told: %s", &told)
	}

	timeout, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err = w.Session(timeout); !fault.Has(err, fault.LockTimeout) || !strings.Contains(err.Error(), holder) {
		t.Errorf("got %v, want LOCK_TIMEOUT and %s", err, holder)
	}
	cancelled, stop := context.WithCancel(ctx)
	stop()
	if _, err = w.Session(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestColumnTraits(t *testing.T) {
	s := openSession(t, openWarehouse(t, filepath.Join(t.TempDir(), "w.duckdb")))
	for _, text := range []warehouses.SQL{"CREATE SEQUENCE q", `CREATE TABLE "t x" ("order" VARCHAR COLLATE NOCASE.NOACCENT NOT NULL, "a""b" VARCHAR DEFAULT 'x, n INTEGER GENERATED ALWAYS AS (1)',
		plain DECIMAL(10,2), st STRUCT(n INTEGER, b VARCHAR), e ENUM('a, n', 'b'), "select" INTEGER, ga VARCHAR GENERATED ALWAYS AS (upper("order")), n INTEGER CHECK (n > 0),
		ts TIMESTAMPTZ DEFAULT now(), big BIGINT DEFAULT nextval('q'), "Öö" VARCHAR COLLATE C, "sum" DECIMAL(12,2) GENERATED ALWAYS AS (n + 1), de VARCHAR COLLATE "de", PRIMARY KEY (n))`} {
		if _, err := s.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	table, err := s.Table(ctx, warehouses.QualifiedName{Database: "w", Schema: "main", Table: "t x"})
	if err != nil {
		t.Fatal(err)
	}
	collations, computed, defaults := map[string]string{}, []string{}, []string{}
	for _, c := range table.Columns {
		if c.Type.Collation != "" {
			collations[c.Name] = c.Type.Collation
		}
		if c.Computed {
			computed = append(computed, c.Name)
		}
		if c.HasDefault {
			defaults = append(defaults, c.Name)
		}
	}
	if diff := cmp.Diff(map[string]string{"order": "NOCASE.NOACCENT", "de": "de"}, collations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ga", "sum"}, computed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`a"b`, "ts", "big"}, defaults); diff != "" {
		t.Error(diff)
	}
}
