package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestStoppedProcessWakesUp stops a process, ends the session that holds its locks, as PostgreSQL does when it takes a
// host for dead, and lets another process carry out the same command. When the first one wakes up it publishes nothing
// over its successor's work, ends with an error, and its attempt stays lost.
func TestStoppedProcessWakesUp(t *testing.T) {
	t.Parallel()
	stops := []struct {
		name, point string
		cutOff      bool // its session with the warehouse is gone too
		waits       bool // the successor waits for its transaction
		outcome     outcome
	}{
		{"before the fence", "before step 1#1", false, false, certain},
		{"before COMMIT", "before commit#1", false, true, committed},
		{"before COMMIT and cut off", "before commit#1", true, false, rolledBack},
		{"after COMMIT", "before outcome#1", false, false, committed},
	}
	postgresOnly := func(on system) bool { return on.usesPostgres() && !on.mixed() }
	onScenarios(t, postgresOnly, every, func(t *testing.T, on system, s scenario) {
		want, _ := undisturbed(t, on, s)
		for _, stop := range stops {
			t.Run(stop.name, func(t *testing.T) {
				p := newProject(t, on, s)
				late := p.startStopped(t, stop.point, actJSON...)
				p.endLockSession(t)
				if stop.cutOff {
					p.endSession(t, "state = 'idle in transaction'")
				}
				next := p.start(t, "", actJSON...)
				if stop.waits {
					p.waitsInWarehouse(t)
					late.goOn()
				}
				document := next.succeed()
				same(t, "after the successor", want, p.observe(t, document))
				late.goOn()
				late.ousted()
				same(t, "in the end", want, p.observe(t, document))
				same(t, "the attempts", []string{"LOST ATTEMPT_LOST " + s.settled(stop.outcome), "SUCCESS - -"}, p.attempts(t))
			})
		}
	})
}

// TestStoppedProcessKeepsDuckDB is the same with a DuckDB warehouse. A process that is stopped has the file, so nobody
// works behind its back: its successor waits for it, and is refused or takes over when the file is free.
func TestStoppedProcessKeepsDuckDB(t *testing.T) {
	t.Parallel()
	onScenarios(t, both(enginePostgres, warehouseDuckDB), every, func(t *testing.T, on system, s scenario) {
		want, _ := undisturbed(t, on, s)
		for _, point := range []string{"before step 1#1", "before commit#1", "before outcome#1"} {
			t.Run(point, func(t *testing.T) {
				p := newProject(t, on, s)
				late := p.startStopped(t, point, actJSON...)
				p.endLockSession(t)
				next := p.start(t, "", actJSON...)
				p.waitsForFile(t)
				late.goOn()
				late.ousted()
				if next.wait() != 0 {
					next.fail(5, "RUN_OWNED")
				}
				same(t, "in the end", want, p.finish(t, p.goOn(t)...))
			})
		}
	})
}

// TestStoppedProcessKeepsItsLocks has the Engine DB on SQLite, where the locks of a stopped process stay: others are
// refused while its lease runs. Who takes its run over afterwards waits for the target until it has woken up, and finds
// what it has committed.
func TestStoppedProcessKeepsItsLocks(t *testing.T) {
	t.Parallel()
	onScenarios(t, engineSQLite, every, func(t *testing.T, on system, s scenario) {
		want, _ := undisturbed(t, on, s)
		p := newProject(t, on, s)
		late := p.startStopped(t, "before commit#1", actJSON...)
		p.start(t, "", actJSON...).fail(5, "RUN_OWNED")
		p.engine.exec(t, `UPDATE AUD_PIPELINES_RUN_LOG SET LEASE_EXPIRES_AT = '2026-01-01T00:00:00.000000Z' WHERE OWNER_ID IS NOT NULL;
			UPDATE AUD_TASK_ATTEMPTS SET LEASE_EXPIRES_AT = '2026-01-01T00:00:00.000000Z' WHERE ENDED_AT IS NULL`)
		next := p.start(t, "", actJSON...)
		if on.warehouse == "duckdb" {
			p.waitsForFile(t) // before it claims the run
			late.goOn()
			t.Logf("the first ended with exit code %d, the second with %d", late.wait(), next.wait())
		} else {
			eventually(t, "a second attempt starts", func() bool { return len(p.attempts(t)) == 2 })
			late.goOn()
			late.ousted()
			next.succeed()
			same(t, "the attempts", []string{"LOST ATTEMPT_LOST " + s.settled(committed), "SUCCESS - -"}, p.attempts(t))
		}
		same(t, "in the end", want, p.finish(t, p.goOn(t)...))
	})
}

// endLockSession ends the session that holds the locks of the one process that runs.
func (p project) endLockSession(t *testing.T) {
	t.Helper()
	p.endSession(t, "application_name = 'etl-craft locks'")
}

// endSession ends the one session of the project's PostgreSQL database of which a condition holds.
func (p project) endSession(t *testing.T, which string) {
	t.Helper()
	in := p.warehouse
	if p.on.engine == "postgres" {
		in = p.engine
	}
	// The function is not in WHERE, whose parts PostgreSQL evaluates in an order of its own.
	n := in.count(t, "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = current_database() AND "+which)
	if n != 1 {
		t.Fatalf("%d sessions were ended where %s, want 1", n, which)
	}
}

// waitsInWarehouse waits until a session of the PostgreSQL warehouse waits for another one.
func (p project) waitsInWarehouse(t *testing.T) {
	t.Helper()
	p.warehouse.use(t, func(db database) {
		eventually(t, "a session waits for another", func() bool {
			return db.count(t, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`) > 0
		})
	})
}

// waitsForFile waits until a process waits for the DuckDB file, which it tells the holder by a shared lock.
func (p project) waitsForFile(t *testing.T) {
	t.Helper()
	eventually(t, "a process waits for the DuckDB file", func() bool {
		f, err := os.OpenFile(filepath.Join(p.dir, "warehouse.duckdb.wait"), os.O_RDWR, 0)
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
	})
}

// goOn is the command that goes on with the one run of ACT, and only reports it when it has ended well.
func (p project) goOn(t *testing.T) []string {
	t.Helper()
	id := p.engine.count(t, `SELECT PIPELINE_RUN_ID FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID
		WHERE p.PIPELINE_CODE = 'ACT'`)
	return []string{"run", "--pipeline", "ACT", "--run-id", fmt.Sprint(id)}
}
