package storetest

import (
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

// BenchmarkTask is what the engine records for one task: start, two advances, end.
func BenchmarkTask(b *testing.B) {
	for name, open := range kinds() {
		b.Run(name, func(b *testing.B) {
			s := open(b).Migrated().Store()
			if _, err := s.ApplyMetadata(ctx, Tester, []store.DesiredPipeline{sales()}, anything); err != nil {
				b.Fatal(err)
			}
			g, err := s.Graph(ctx, "SALES")
			if err != nil {
				b.Fatal(err)
			}
			r, err := s.AdmitRun(ctx, newRun(g.Pipeline.ID, "k"))
			if err != nil {
				b.Fatal(err)
			}
			list, err := s.TaskRuns(ctx, r.ID)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				a, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: list[0].ID, Owner: "one", Actor: Tester})
				if err != nil {
					b.Fatal(err)
				}
				for _, phase := range []string{store.PhaseWriting, store.PhaseCommitting} {
					if err := s.Advance(ctx, a.ID, "one", store.Progress{Phase: phase, Target: target}); err != nil {
						b.Fatal(err)
					}
				}
				err = s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "one", Status: store.Success, TaskStatus: store.Success})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
