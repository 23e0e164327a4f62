package sql

import (
	"context"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

// TestOutsiderBeforeTheMerge: where a statement is what commits, somebody else's commit between the classification and the
// merge makes the action start again.
func TestOutsiderBeforeTheMerge(t *testing.T) {
	for _, on := range backends(t) {
		for _, merge := range []taskParams{scd1, scd2, deleteSoft, deleteHard} {
			name := merge["SQL_ACTION"]
			if merge["HARD_DELETE"] == "true" {
				name += "_hard"
			}
			t.Run(on.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, on)
				if b.env.Dialect.Transactional {
					return // its transaction keeps outsiders out
				}
				b.exec(rawStatements...)
				writer := merge
				if merge["SQL_ACTION"] == DeleteRows {
					b.exec("INSERT INTO raw.gone VALUES (1)")
					writer = scd1
				}
				b.run(setupSCD1, writer)
				b.run(writer)
				b.exec("INSERT INTO raw.customers VALUES (2, 'bob', 'bob@example.com', TIMESTAMP '2026-09-01 10:00:00')")
				a := b.attempt(merge)
				advance, times := a.Advance, 0
				a.Advance = func(ctx context.Context, p store.Progress) error {
					if times++; times == 1 {
						b.exec("INSERT INTO sales.customers (customer_id, name, row_id) SELECT 9, 'outsider', max(row_id) + 1 FROM sales.customers")
					}
					return advance(ctx, p)
				}
				res, err := Handler{}.Run(context.Background(), b.env, a)
				if err != nil {
					t.Fatal(err)
				}
				if times != 2 {
					t.Errorf("the action began %d time(s)", times)
				}
				if n := *res.TaskCounts.Written; n != 1 {
					t.Errorf("%d row(s) written", n)
				}
				if rows := b.rows("name", "sales.customers WHERE name = 'outsider'"); len(rows) != 1 {
					t.Errorf("outsiders: %v", rows)
				}
			})
		}
	}
}
