package sql

import (
	"context"
	"strings"
	"testing"
)

// TestCheckTarget finds keys that are there twice, and on a large table of PostgreSQL keys without an index.
func TestCheckTarget(t *testing.T) {
	for _, on := range backends(t) {
		t.Run(on.name, func(t *testing.T) {
			b := newBench(t, on)
			check := func(p taskParams) string {
				t.Helper()
				s, err := b.env.Warehouse.Session(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				problems, err := Handler{}.CheckTarget(context.Background(), b.env, handlerTask(p), s)
				if err != nil {
					t.Fatal(err)
				}
				var all []string
				for _, problem := range problems {
					all = append(all, problem.Level+" "+string(problem.Code)+" "+problem.Message)
				}
				return strings.Join(all, "; ")
			}
			if got := check(scd2); got != "" {
				t.Errorf("missing table: %s", got)
			}
			history(b)
			if got := check(scd2) + check(appendOrders); got != "" {
				t.Errorf("good table: %s", got)
			}
			// Closed versions repeat keys, as they should; to SCD1_MERGE they are rows.
			if got := check(scd1); !strings.Contains(got, "FAIL TARGET_KEYS_REPEATED") || !strings.Contains(strings.ToLower(got), "1 merge key(s) (customer_id)") {
				t.Errorf("as SCD1: %s", got)
			}
			b.exec("INSERT INTO sales.customers (customer_id, active_flag) SELECT customer_id, 'Y' FROM sales.customers WHERE customer_id <> 1 AND active_flag = 'Y'")
			if got := check(scd2); !strings.Contains(got, "FAIL TARGET_KEYS_REPEATED") || !strings.Contains(got, "2 merge key(s)") {
				t.Errorf("repeated: %s", got)
			}
			if !b.env.Dialect.Transactional {
				return // it has no indexes
			}
			b.exec("DELETE FROM sales.customers", "INSERT INTO sales.customers (customer_id, name, active_flag) SELECT n, repeat('x', 100), 'Y' FROM generate_series(1, 10000) AS s(n)")
			want := ""
			if b.env.Dialect.IndexesStage {
				want = "WARN MERGE_KEY_UNINDEXED no index of "
			}
			if got := check(scd2); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("without an index: %s", got)
			}
			b.exec("CREATE INDEX by_key ON sales.customers (customer_id)")
			if got := check(scd2); got != "" {
				t.Errorf("with an index: %s", got)
			}
		})
	}
}
