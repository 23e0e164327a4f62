package sql

import (
	"context"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

// TestRepeatedOnPurpose: what a successful attempt did is not counted again when somebody asks for the task once more; what
// an attempt did that was lost afterwards is.
func TestRepeatedOnPurpose(t *testing.T) {
	for _, c := range []struct {
		status string
		want   int64
	}{{store.Success, 0}, {store.Lost, 2}} {
		b := newBench(t, backends(t)[0])
		b.run(taskParams{"SQL_ACTION": SetupTable, "TARGET_OBJECT": "t.x", "SOURCE_SQL": "SELECT 1 AS id, 'a' AS name", "SETUP_FOR": SCD1Merge})
		merge := taskParams{"SQL_ACTION": SCD1Merge, "TARGET_OBJECT": "t.x", "MERGE_KEY": "id", "MERGE_COMPARE_COLUMNS": "name",
			"SOURCE_SQL": "SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b'"}
		first := b.attempt(merge)
		var planned store.Progress
		advance := first.Advance
		first.Advance = func(ctx context.Context, p store.Progress) error {
			planned = p
			return advance(ctx, p)
		}
		if _, err := (Handler{}).Run(t.Context(), b.env, first); err != nil {
			t.Fatal(err)
		}
		second := b.attempt(merge)
		second.TaskRunID, second.Number = first.TaskRunID, 2
		second.Earlier = []store.Attempt{{ID: first.AttemptID, Number: 1, Status: c.status, Phase: store.PhaseCommitting, Planned: planned.Planned,
			Witness: planned.Witness, Instant: &first.Instant}}
		res, err := Handler{}.Run(t.Context(), b.env, second)
		if err != nil {
			t.Fatal(err)
		}
		if *res.Counts.Written != 0 || *res.TaskCounts.Written != c.want {
			t.Errorf("after %s: the attempt wrote %d, the task %d, want 0 and %d", c.status, *res.Counts.Written, *res.TaskCounts.Written, c.want)
		}
	}
}
