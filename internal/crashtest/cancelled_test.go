package crashtest

import (
	"syscall"
	"testing"
)

// TestLongStatementEnds ends a statement that would run for a minute in each of the three ways. When the command has
// returned, nothing of it is left in the server, and a DuckDB file is free.
func TestLongStatementEnds(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name, params string
		end          func(*testing.T, project, *process)
		exit         int
		says         string
		attempt      string
		run          string
	}{
		{"timeout", ", TASK_TIMEOUT_SECONDS: 2", func(*testing.T, project, *process) {}, 1, "TASK_TIMEOUT", "TIMED_OUT TASK_TIMEOUT", "FAILED"},
		{"cancel", "", func(t *testing.T, p project, r *process) {
			p.etl(t, "cancel", "--pipeline", "SLEEPS", "--reason", "it takes too long")
			p.noneSleeps(t)
		}, 1, "was cancelled", "CANCELLED RUN_CANCELLED", "CANCELLED"},
		{"Ctrl-C twice", "", func(t *testing.T, p project, r *process) {
			r.signal(syscall.SIGINT)
			eventually(t, "the first one is noticed", func() bool { return r.printed("interrupt again to stop them") })
			r.signal(syscall.SIGINT)
		}, 130, "hint: etl-craft run --pipeline SLEEPS", "CANCELLED TASK_CANCELLED", "IN_PROGRESS"},
	}
	onSystems(t, all, func(t *testing.T, on system) {
		for _, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				query := "SELECT pg_sleep(60)::text AS nothing"
				if on.warehouse == "duckdb" {
					query = "SELECT sum(i * i) AS nothing FROM range(1000000000000) AS r(i)"
				}
				p := makeProject(t, on, map[string]string{"SLEEPS": `
  - task: asleep
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.asleep, SOURCE_SQL: "` + query + `"` + way.params + `}
  - task: after
    depends_on: [asleep]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}`})
				r := p.start(t, "", runOf("SLEEPS")...)
				p.sleeps(t)
				way.end(t, p, r)
				r.fail(way.exit, way.says)
				p.noneSleeps(t)
				p.engine.use(t, func(db database) {
					same(t, "the attempt", []string{way.attempt}, db.texts(t, "SELECT STATUS || ' ' || ERROR_CODE FROM AUD_TASK_ATTEMPTS"))
					same(t, "the run", []string{way.run}, db.texts(t, "SELECT STATUS FROM AUD_PIPELINES_RUN_LOG"))
				})
				if n := p.warehouse.count(t, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 't'"); n != 0 {
					t.Errorf("%d tables are left", n)
				}
			})
		}
	})
}

const sleepers = `SELECT count(*) FROM pg_stat_activity
	WHERE datname = current_database() AND query LIKE '%pg_sleep(60)%' AND state <> 'idle' AND pid <> pg_backend_pid()`

// sleeps waits until the statement runs.
func (p project) sleeps(t *testing.T) {
	t.Helper()
	if p.on.warehouse == "duckdb" { // which nobody can ask
		eventually(t, "an attempt runs", func() bool { return p.engine.count(t, "SELECT count(*) FROM AUD_TASK_ATTEMPTS") == 1 })
		return
	}
	p.warehouse.use(t, func(db database) {
		eventually(t, "the statement runs", func() bool { return db.count(t, sleepers) == 1 })
	})
}

// noneSleeps expects that the statement is gone now, and opens the DuckDB file, which only one process can.
func (p project) noneSleeps(t *testing.T) {
	t.Helper()
	if p.on.warehouse == "duckdb" {
		p.warehouse.count(t, "SELECT count(*) FROM raw.rows")
		return
	}
	if n := p.warehouse.count(t, sleepers); n != 0 {
		t.Errorf("%d statements still run in the server", n)
	}
}
