package sql

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// TestComputedColumns: a column that the target computes is left to it by every action that writes rows.
func TestComputedColumns(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			stored, knows := map[string]string{"duckdb": "", "postgres": " STORED"}[b.env.Dialect.Name]
			if !knows {
				t.Skip("tables cannot be given such columns by this statement")
			}
			b.exec(rawStatements...)
			b.exec("CREATE SCHEMA sales", `CREATE TABLE sales.customers (customer_id BIGINT, name VARCHAR(50), loud VARCHAR GENERATED ALWAYS AS (upper(name))`+stored+`, email VARCHAR(50), updated_at TIMESTAMP,
				pipeline_id BIGINT, pipeline_run_id BIGINT, task_run_id BIGINT, create_date TIMESTAMP WITH TIME ZONE, created_by VARCHAR(63), update_date TIMESTAMP WITH TIME ZONE, updated_by VARCHAR(63),
				delete_flag VARCHAR(1), active_flag VARCHAR(1), hash_key VARCHAR(32))`)
			if b.env.Dialect.Sequences {
				b.exec("CREATE SEQUENCE sales.numbers", "ALTER TABLE sales.customers ADD COLUMN row_id BIGINT DEFAULT nextval('sales.numbers')")
			} else {
				b.exec("ALTER TABLE sales.customers ADD COLUMN row_id BIGINT GENERATED ALWAYS AS IDENTITY")
			}
			for _, q := range []taskParams{
				task("SQL_ACTION", AppendTable, "TARGET_OBJECT", "sales.customers", "SOURCE_SQL", customers),
				task("SQL_ACTION", OverwriteTable, "TARGET_OBJECT", "sales.customers", "SOURCE_SQL", customers),
				scd1, scd2,
			} {
				b.exec("DELETE FROM sales.customers")
				b.run(q)
				b.exec("UPDATE raw.customers SET name = 'x' || name WHERE customer_id = 1")
				b.run(q)
				_, err := Handler{}.Run(context.Background(), b.env, b.attempt(q.with("SOURCE_SQL", "SELECT c.*, 'A' AS loud FROM ("+customers+") AS c")))
				wantFault(t, err, fault.TargetShape, "computes loud itself")
			}
			var want [][]string
			for _, r := range b.rows("upper(name)", "sales.customers") {
				want = append(want, []string{r[0]})
			}
			if diff := cmp.Diff(want, b.rows("loud", "sales.customers")); diff != "" || len(want) == 0 {
				t.Error(diff, len(want))
			}
		})
	}
}

// TestCollatedKeys: a key column that takes different texts for equal.
func TestCollatedKeys(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			collation := map[string]string{"duckdb": "NOCASE", "postgres": "sales.nocase"}[b.env.Dialect.Name]
			if collation == "" {
				t.Skip("no such collation")
			}
			b.exec("CREATE SCHEMA sales")
			if b.env.Dialect.Name == "postgres" {
				b.exec("CREATE COLLATION sales.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
			}
			b.exec(`CREATE TABLE sales.t (id VARCHAR(9) COLLATE `+collation+`, plain VARCHAR(9), bytes VARCHAR(9) COLLATE "C")`, "INSERT INTO sales.t VALUES ('A', 'A', 'A'), ('a', 'a', 'a')")
			remove := task("SQL_ACTION", DeleteRows, "HARD_DELETE", "true", "TARGET_OBJECT", "sales.t")
			_, err := Handler{}.Run(context.Background(), b.env, b.attempt(remove.with("MERGE_KEY", "id", "SOURCE_SQL", "SELECT 'A' AS id")))
			wantFault(t, err, fault.KeyType, "nocase")
			for _, key := range []string{"plain", "bytes"} {
				if n := *b.run(remove.with("MERGE_KEY", key, "SOURCE_SQL", "SELECT '"+map[string]string{"plain": "A", "bytes": "a"}[key]+"' AS "+key)).Counts.Delete; n != 1 {
					t.Errorf("%d rows deleted by %s", n, key)
				}
			}
		})
	}
}
