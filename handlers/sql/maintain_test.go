package sql

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// maintenance is what the engine would give; it counts the locks.
func (b *bench) maintenance(dry bool, held *int) *handlers.Maintenance {
	return &handlers.Maintenance{
		DryRun: dry, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hold:  func(context.Context, locks.Key, locks.Holder) error { *held++; return nil },
		Check: func(context.Context) error { return nil },
		ForgetHash: func(_ context.Context, t store.TargetName) error {
			delete(b.records, t)
			return nil
		},
		RecordHash: func(_ context.Context, t store.TargetName, version int, compare string) error {
			r := b.records[t]
			r.HashVersion, r.CompareColumns = version, compare
			b.records[t] = r
			return nil
		},
	}
}

func (b *bench) target(tasks ...taskParams) handlers.Target {
	b.t.Helper()
	var list []*handlers.Task
	for _, p := range tasks {
		list = append(list, handlerTask(p))
	}
	targets := Handler{}.Targets(b.env, list)
	if len(targets) != 1 || len(targets[0].Tasks) != len(tasks) {
		b.t.Fatalf("targets are %v", targets)
	}
	return targets[0]
}

func (b *bench) rehash(dry bool, tasks ...taskParams) (*handlers.Maintained, error) {
	b.t.Helper()
	held := 0
	done, err := Handler{}.Rehash(context.Background(), b.env, b.target(tasks...), b.maintenance(dry, &held))
	if want := map[bool]int{true: 0, false: 1}[dry]; err == nil && held != want {
		b.t.Errorf("%d locks were taken, want %d", held, want)
	}
	return done, err
}

func (b *bench) upgrade(dry bool, tasks ...taskParams) (*handlers.Maintained, error) {
	b.t.Helper()
	held := 0
	return Handler{}.Upgrade(context.Background(), b.env, b.target(tasks...), b.maintenance(dry, &held))
}

// rows reads columns of a table as text, in order of ROW_ID.
func (b *bench) rows(columns, table string) [][]string {
	b.t.Helper()
	s, err := b.env.Warehouse.Session(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	rows, err := s.Rows(context.Background(), warehouses.SQL("SELECT "+columns+" FROM "+table+" ORDER BY row_id"), 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	return rows
}

func wantFault(t *testing.T, err error, code fault.Code, words ...string) {
	t.Helper()
	if !fault.Has(err, code) {
		t.Fatalf("error is %v, want %s", err, code)
	}
	text := err.Error() + " " + fault.As(err).Hint
	for _, w := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(w)) { // some warehouses fold names to upper case
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

const business = "customer_id, name, email, updated_at, pipeline_id, pipeline_run_id, task_run_id, create_date, created_by, update_date, updated_by, delete_flag, active_flag, row_id"

// history is a table with two versions of a key, one key that was deleted, and one that is as it was.
func history(b *bench) {
	b.exec(rawStatements...)
	b.exec("INSERT INTO raw.customers VALUES (2, NULL, '', NULL), (3, 'zoë|x', 'z', NULL)")
	b.run(setupSCD1.with("SOURCE_SQL", customers), scd2)
	b.run(scd2)
	b.exec("UPDATE raw.customers SET email = 'new' WHERE customer_id = 1")
	b.run(scd2)
	b.exec("INSERT INTO raw.gone VALUES (3)")
	b.run(deleteSoft, scd2)
}

// TestRehash changes HASH_KEY only, of every row, and leaves hashes as merges make them.
func TestRehash(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			history(b)
			before, hashes := b.rows(business, "sales.customers"), b.rows("hash_key", "sales.customers")
			if len(before) != 4 {
				t.Fatalf("%d rows", len(before))
			}
			done, err := b.rehash(false, scd2)
			if err != nil || done.Rows != 4 || done.Changed != 0 || done.Record {
				t.Fatalf("right already: %+v %v", done, err)
			}

			swapped := scd2.with("MERGE_COMPARE_COLUMNS", "email|name")
			_, err = Handler{}.Run(context.Background(), b.env, b.attempt(swapped))
			wantFault(t, err, fault.HashColumns, "etl-craft rehash --target sales.customers")
			done, err = b.rehash(true, swapped)
			if err != nil || done.Rows != 4 || done.Changed != 4 || !done.Record || strings.ToLower(strings.Join(done.Compare, " ")) != "email name" {
				t.Fatalf("dry run: %+v %v", done, err)
			}
			if diff := cmp.Diff(hashes, b.rows("hash_key", "sales.customers")); diff != "" {
				t.Fatalf("the dry run changed hashes: %s", diff)
			}
			done, err = b.rehash(false, swapped)
			if err != nil || done.Changed != 4 {
				t.Fatalf("%+v %v", done, err)
			}
			if diff := cmp.Diff(before, b.rows(business, "sales.customers")); diff != "" {
				t.Errorf("more than HASH_KEY changed: %s", diff)
			}
			if n := *b.run(swapped).Counts.Insert; n != 1 { // the deleted key comes back; nothing else differs
				t.Errorf("the merge after it inserted %d rows", n)
			}
			if done, err = b.rehash(false, swapped); err != nil || done.Changed != 0 {
				t.Fatalf("what merges make: %+v %v", done, err)
			}

			// The record is lost, or the rows were written before there was a version: only what is wrong is written.
			clear(b.records)
			done, err = b.rehash(false, swapped)
			if err != nil || done.Changed != 0 || !done.Record {
				t.Fatalf("record only: %+v %v", done, err)
			}
			b.exec("UPDATE sales.customers SET hash_key = NULL WHERE customer_id = 2")
			if done, err = b.rehash(false, swapped); err != nil || done.Changed != 1 {
				t.Fatalf("one row: %+v %v", done, err)
			}
			b.run(swapped)
		})
	}
}

// TestRehashBeforeEvolution: a column that is compared from now on and does not exist yet.
func TestRehashBeforeEvolution(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			history(b)
			wider := scd2.with("MERGE_COMPARE_COLUMNS", "name|email|note", "SOURCE_SQL", "SELECT c.*, CAST(NULL AS VARCHAR(9)) AS note FROM ("+customers+") AS c")
			_, err := b.rehash(false, wider)
			wantFault(t, err, fault.TargetShape, "note", "SCHEMA_EVOLUTION")
			wider = wider.with("SCHEMA_EVOLUTION", "true")
			_, err = Handler{}.Run(context.Background(), b.env, b.attempt(wider))
			wantFault(t, err, fault.HashColumns, "etl-craft rehash --target sales.customers")
			if done, err := b.rehash(false, wider); err != nil || done.Changed != 4 {
				t.Fatalf("%+v %v", done, err)
			}
			if n := *b.run(wider).Counts.Insert; n != 1 { // the deleted key comes back; nothing else differs
				t.Errorf("the merge after it inserted %d rows", n)
			}
			if done, err := b.rehash(false, wider); err != nil || done.Changed != 0 {
				t.Fatalf("what merges make: %+v %v", done, err)
			}
		})
	}
}

func TestRehashRefuses(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			b.exec(rawStatements...)
			done, err := b.rehash(false, scd1)
			if err != nil || done.Plan != nil {
				t.Fatalf("missing table: %+v %v", done, err)
			}
			_, err = b.rehash(false, setupSCD1)
			wantFault(t, err, fault.MetadataInvalid, "no active task merges into")
			b.exec("CREATE SCHEMA sales", "CREATE VIEW sales.customers AS SELECT 1 AS one")
			_, err = b.rehash(false, scd1)
			wantFault(t, err, fault.TargetKind, "a view")
			b.exec("DROP VIEW sales.customers", "CREATE TABLE sales.customers (customer_id BIGINT, name VARCHAR, email REAL)")
			_, err = b.rehash(false, scd1)
			wantFault(t, err, fault.TargetShape, "hash_key")
			b.exec("ALTER TABLE sales.customers ADD COLUMN hash_key VARCHAR(32)")
			_, err = b.rehash(false, scd1)
			wantFault(t, err, fault.HashType, "email", "DECIMAL(p,s)")
			b.exec("ALTER TABLE sales.customers ADD COLUMN seen DATE", "INSERT INTO sales.customers VALUES (1, 'a', 1, 'old', DATE '12000-01-01')")
			for _, dry := range []bool{true, false} {
				_, err = b.rehash(dry, scd1.with("MERGE_COMPARE_COLUMNS", "name|seen"))
				wantFault(t, err, fault.HashRange, "1 row(s)")
			}
			if len(b.records) > 0 {
				t.Errorf("recorded %v", b.records)
			}
		})
	}
}

func TestUpgrade(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			b.exec(rawStatements...)
			b.run(setupAppend)
			done, err := b.upgrade(false, setupAppend, appendOrders)
			if err != nil || len(done.Columns) != 0 || done.Plan == nil {
				t.Fatalf("upgraded already: %+v %v", done, err)
			}
			b.run(appendOrders)
			for _, c := range identityColumns[1:] {
				b.exec("ALTER TABLE sales.orders DROP COLUMN " + c)
			}
			before := b.rows("order_id, customer, amount, pipeline_id, create_date, row_id", "sales.orders")
			_, err = Handler{}.Run(context.Background(), b.env, b.attempt(appendOrders))
			wantFault(t, err, fault.TargetShape, "etl-craft upgrade-targets")
			want := []string{"pipeline_run_id", "task_run_id"}
			for _, dry := range []bool{true, false} {
				done, err = b.upgrade(dry, setupAppend, appendOrders)
				if err != nil || !slices.Equal(done.Columns, want) {
					t.Fatalf("dry run %t: %+v %v", dry, done, err)
				}
			}
			if diff := cmp.Diff(before, b.rows("order_id, customer, amount, pipeline_id, create_date, row_id", "sales.orders")); diff != "" {
				t.Error(diff)
			}
			if got := b.rows("count(pipeline_run_id), count(task_run_id), count(*), max(row_id) AS row_id", "sales.orders"); got[0][0]+got[0][1]+got[0][2] != "001" {
				t.Errorf("identities, and rows: %v", got)
			}
			b.run(appendOrders)
			if done, err = b.upgrade(false, appendOrders); err != nil || len(done.Columns) != 0 {
				t.Fatalf("again: %+v %v", done, err)
			}

			b.exec("DROP TABLE sales.orders", "CREATE TABLE sales.orders (order_id BIGINT, task_run_id VARCHAR)")
			_, err = b.upgrade(false, appendOrders)
			wantFault(t, err, fault.TargetShape, "task_run_id", "cannot hold an id")
			if done, err = b.upgrade(false, scd1); err != nil || done.Plan != nil {
				t.Fatalf("missing table: %+v %v", done, err)
			}
		})
	}
}

// TestTargets groups tasks by the table that the warehouse would write.
func TestTargets(t *testing.T) {
	b := newBench(t, backends(t)[0])
	var list []*handlers.Task
	for _, name := range []string{"sales.b", "Sales.A", "warehouse.sales.a", "sales.a", "no good", "", "other.sales.a"} {
		list = append(list, handlerTask(task("TARGET_OBJECT", name)))
	}
	var got []string
	for _, target := range (Handler{}).Targets(b.env, list) {
		got = append(got, fmt.Sprintf("%s %d", target.Name, len(target.Tasks)))
	}
	if text := strings.ToLower(strings.Join(got, ", ")); text != "other.sales.a 1, warehouse.sales.a 3, warehouse.sales.b 1" {
		t.Error(text)
	}
}

// TestGoldenMaintenance compares the plans of maintenance, which are then carried out, with those of the folder.
func TestGoldenMaintenance(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			history(b)
			b.run(setupAppend)
			b.exec("ALTER TABLE sales.orders DROP COLUMN task_run_id")
			rehashed, err := b.rehash(false, scd2.with("MERGE_COMPARE_COLUMNS", "email|updated_at"))
			if err != nil {
				t.Fatal(err)
			}
			upgraded, err := b.upgrade(false, appendOrders)
			if err != nil {
				t.Fatal(err)
			}
			for name, plan := range map[string]*warehouses.Plan{"rehash": rehashed.Plan, "upgrade_targets": upgraded.Plan} {
				path := filepath.Join("testdata", "plans", "maintenance", name+"."+b.env.Dialect.Name+".sql")
				got := b.same(plan.String())
				if *update {
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("%s: %s", path, diff)
				}
			}
		})
	}
}
