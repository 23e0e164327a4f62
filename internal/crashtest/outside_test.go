package crashtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestLockSessionLost ends the session that holds a living process's locks while it works. The process notices before
// its COMMIT, publishes nothing, and its run can go on.
func TestLockSessionLost(t *testing.T) {
	t.Parallel()
	onScenarios(t, enginePostgres, every, func(t *testing.T, on system, s scenario) {
		want, points := undisturbed(t, on, s)
		last := points[slices.Index(points, "phase recorded#1")-1] // before the locks are checked and the phase is recorded
		p := newProject(t, on, s)
		before := p.rows(t)
		robbed := p.startStopped(t, last, actJSON...)
		p.endLockSession(t)
		robbed.goOn()
		robbed.fail(1, "LOCK_LOST")
		same(t, "the target afterwards", before, p.rows(t))
		same(t, "the attempt", []string{"CANCELLED LOCK_LOST -"}, p.attempts(t))
		same(t, "the run", []string{"IN_PROGRESS"}, p.runsOfACT(t))
		same(t, "after going on", want, p.finish(t, p.goOn(t)...))
	})
}

// runsOfACT are the states of its runs.
func (p project) runsOfACT(t *testing.T) (states []string) {
	t.Helper()
	p.engine.use(t, func(db database) {
		states = db.texts(t, `SELECT r.STATUS FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID
			WHERE p.PIPELINE_CODE = 'ACT' ORDER BY r.PIPELINE_RUN_ID`)
	})
	return states
}

// TestOutsideWriter lets a session that is not etl-craft's write to the target while an action is between its look at
// the target and its COMMIT. The writer waits, and what it writes then stands.
func TestOutsideWriter(t *testing.T) {
	t.Parallel()
	onScenarios(t, warehousePostgres, onExisting, func(t *testing.T, on system, s scenario) {
		want, _ := undisturbed(t, on, s)
		for _, when := range []string{"target locked", "before commit#1"} {
			t.Run(when, func(t *testing.T) {
				p := newProject(t, on, s)
				point := when
				if point == "target locked" {
					point = p.targetLocked(t)
				}
				r := p.startStopped(t, point, actJSON...)
				inserts := p.writeOutside(t, "INSERT INTO t.target (id, name) VALUES (99, 'outside')")
				updates := p.writeOutside(t, "UPDATE t.target SET name = 'outside' WHERE id = 6")
				p.warehouse.use(t, func(db database) {
					eventually(t, "both writers wait", func() bool {
						return db.count(t, `SELECT count(*) FROM pg_stat_activity
							WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`) == 2
					})
				})
				r.goOn()
				document := r.succeed()
				inserted, updated := <-inserts, <-updates

				p.warehouse.use(t, func(db database) {
					same(t, "inserted and updated rows", [2]string{"1", fmt.Sprint(versions(want.Rows, 6))}, [2]string{inserted, updated})
					same(t, "updated rows that are there", updated, fmt.Sprint(db.count(t, "SELECT count(*) FROM t.target WHERE id = 6 AND name = 'outside'")))
					if n := db.exec(t, "DELETE FROM t.target WHERE id = 99"); n != 1 {
						t.Errorf("the row from outside is there %d times", n)
					}
				})
				got := p.observe(t, document)
				withoutUpdated := want
				withoutUpdated.Rows, got.Rows = without(want.Rows, 6), without(got.Rows, 6)
				same(t, "what was not written from outside", withoutUpdated, got)
			})
		}
	})
}

// TestOutsideWriterFirst has the outside session's transaction open when the action begins: a merge waits for it and sees
// its row.
func TestOutsideWriterFirst(t *testing.T) {
	t.Parallel()
	merges := func(s scenario) bool { return s.name == "scd1" || s.name == "scd2" }
	onScenarios(t, warehousePostgres, merges, func(t *testing.T, on system, s scenario) {
		p := newProject(t, on, s)
		active := ""
		if s.name == "scd2" {
			active = ", active_flag = 'Y'"
		}
		p.warehouse.use(t, func(db database) {
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			for _, statement := range []string{
				"INSERT INTO t.target (id, name) VALUES (11, 'outside')",
				"UPDATE t.target SET delete_flag = 'N'" + active + " WHERE id = 11",
			} {
				if _, err := tx.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			r := p.start(t, "", act...)
			p.waitsInWarehouse(t)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			r.succeed()
			rows := map[string][]string{"scd1": {"new 11 N"}, "scd2": {"new 11 N Y", "outside N N"}}[s.name]
			flag := map[string]string{"scd1": "", "scd2": " || ' ' || active_flag"}[s.name]
			same(t, "the key that was inserted from both sides", rows, db.texts(t, "SELECT name || ' ' || delete_flag"+flag+" FROM t.target WHERE id = 11 ORDER BY 1"))
		})
	})
}

// targetLocked is the point from which outside writers are kept out, as the plan has it.
func (p project) targetLocked(t *testing.T) string {
	t.Helper()
	var doc struct {
		Tasks []struct {
			Task  string `json:"task"`
			Steps []struct {
				Name string `json:"name"`
			} `json:"steps"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(p.etl(t, "plan", "--pipeline", "ACT", "--task", "act", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	for i, step := range doc.Tasks[0].Steps {
		if step.Name == "lock the target" || step.Name == "drop the old table" {
			return fmt.Sprintf("after step %d#1", i+1)
		}
	}
	t.Fatalf("no step locks the target: %v", doc)
	return ""
}

// writeOutside starts a statement in a session of its own; the channel gets the number of its rows, or its error.
func (p project) writeOutside(t *testing.T, statement string) <-chan string {
	t.Helper()
	db := p.warehouse.open(t)
	t.Cleanup(func() { _ = db.Close() })
	done := make(chan string, 1)
	go func() {
		result, err := db.Exec(statement)
		if err != nil {
			done <- err.Error()
			return
		}
		n, err := result.RowsAffected()
		if err != nil {
			done <- err.Error()
			return
		}
		done <- fmt.Sprint(n)
	}()
	return done
}

// versions counts the rows of a key; the key is what a row begins with.
func versions(rows []string, id int) int { return len(rows) - len(without(rows, id)) }

func without(rows []string, id int) []string {
	return slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return strings.HasPrefix(row, fmt.Sprintf("%d | ", id)) })
}
