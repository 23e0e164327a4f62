package databricks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// TestCancel: a statement whose context ends is gone from the server, whether or not the driver has begun to wait for it.
func TestCancel(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 8 * time.Second} {
		c := connect(t)
		watcher := c.another(shared(t))
		property := "etl.test." + c.schema
		step := func() string {
			t.Helper()
			rows, err := watcher.Rows(t.Context(), warehouses.SQL("SELECT java_method('java.lang.System', 'getProperty', '"+property+"')"), 1)
			if err != nil {
				t.Fatal(err)
			}
			return rows[0][0]
		}
		slow := fmt.Sprintf("SELECT max(n) FROM (SELECT length(coalesce(java_method('java.lang.System', 'setProperty', '%s', CAST(id AS STRING)), '')) + length(coalesce(java_method('java.lang.Thread', 'sleep', 100L), '')) AS n FROM range(0, 1200, 1, 1))", property)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		began := time.Now()
		_, err := c.session.Int(ctx, warehouses.SQL(slow))
		cancel()
		if !fault.Has(err, fault.TaskCancelled) {
			t.Fatalf("%v", err)
		}
		took := time.Since(began)
		first := step()
		time.Sleep(2 * time.Second)
		if second := step(); first != second {
			t.Errorf("cancelled after %s, and it still ran: it was at %s, then at %s", after, first, second)
		}
		t.Logf("cancelled after %s, ended after %s at %s of 1200", after, took.Round(time.Millisecond), first)
		if _, err := c.session.Int(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("the session after a cancelled statement: %v", err)
		}
	}
}
