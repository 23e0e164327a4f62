package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// Many processes use an Engine DB at once: each has connections of its own, and all together more than a pooler has
// sessions. Attempts of one task follow each other, and none is lost.
func TestManyUsers(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		const users, n = 12, 4
		s := e.Migrated().Store()
		p := sales()
		p.Tasks = nil
		for i := range n {
			p.Tasks = append(p.Tasks, store.DesiredTask{Code: fmt.Sprintf("t%d", i), Type: "ETL", Handler: "SQL"})
		}
		apply(t, s, p)
		r, err := s.AdmitRun(ctx, newRun(graph(t, s, "SALES").Pipeline.ID, "k"))
		must(t, err)
		list := tasks(t, s, r.ID)

		stores := []*store.Store{s}
		for len(stores) < users {
			stores = append(stores, e.Store())
		}
		var all sync.WaitGroup
		var done [n]atomic.Int64
		for i, user := range stores {
			all.Go(func() {
				owner := fmt.Sprintf("user%d", i)
				for k := range list {
					k = (i + k) % n
					finished, err := attempt(user, owner, list[k])
					if finished {
						done[k].Add(1)
					}
					if err == nil {
						_, err = user.ApplyMetadata(ctx, Tester, []store.DesiredPipeline{p}, anything)
					}
					if err != nil {
						t.Errorf("%s: %v", owner, err)
						return
					}
				}
			})
		}
		all.Wait()
		for k, task := range tasks(t, s, r.ID) {
			want(t, "status", task.Status, store.Success)
			want(t, "attempts", int64(task.Attempts), done[k].Load())
			for i, a := range attempts(t, s, task.ID) {
				want(t, "attempt", fmt.Sprint(a.Number, a.Status), fmt.Sprint(i+1, store.Success))
			}
		}
		must(t, s.EndRun(ctx, store.RunEnd{RunID: r.ID, Owner: "one", Status: store.Success, Actor: Tester}))
	})
}

// attempt is one attempt from start to end, unless another one is alive.
func attempt(s *store.Store, owner string, task store.TaskRun) (finished bool, err error) {
	a, err := s.StartAttempt(ctx, store.StartAttempt{TaskRunID: task.ID, Owner: owner, Actor: Tester})
	if fault.Has(err, fault.TaskState) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := s.TaskRuns(ctx, task.RunID); err != nil {
		return false, err
	}
	if err := s.Advance(ctx, a.ID, owner, store.Progress{Phase: store.PhaseCommitting, Target: target}); err != nil {
		return false, err
	}
	err = s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: owner, Status: store.Success, TaskStatus: store.Success})
	return err == nil, err
}
