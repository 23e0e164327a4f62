package sql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// TestStatementTellsItsOrigin: while a statement of a task runs, the server shows which attempt's it is.
func TestStatementTellsItsOrigin(t *testing.T) {
	for _, on := range backends(t) {
		if !strings.HasPrefix(on.name, "postgres") {
			continue // DuckDB has no list of what runs
		}
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, on)
			a := b.attempt(createOrders.with("SOURCE_SQL", "SELECT 1 AS id FROM pg_sleep(600)", "RUN_DATE_SUBSTITUTION", "false"))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := Handler{}.Run(ctx, b.env, a)
				ended <- err
			}()
			watcher, err := b.env.Warehouse.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = watcher.Close() }()
			var shown [][]string
			for len(shown) == 0 {
				if shown, err = watcher.Rows(t.Context(), "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'", 1); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-ended:
					t.Fatalf("the task ended: %v", err)
				case <-time.After(5 * time.Millisecond):
				}
			}
			cancel()
			err = <-ended
			want := fmt.Sprintf("/* etl-craft pipeline_run_id=97 task_run_id=%d step=stage the SELECT */\nINSERT INTO ", a.TaskRunID)
			if !strings.HasPrefix(shown[0][0], want) {
				t.Errorf("the server shows %q, want %q", shown[0][0], want)
			}
			if e := fault.As(err); e.Step != "stage the SELECT" || !strings.HasPrefix(e.SQL, "INSERT INTO ") {
				t.Errorf("the error names the step %q and the statement %q", e.Step, e.SQL)
			}
		})
	}
}
