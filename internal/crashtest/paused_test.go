package crashtest

import "testing"

// TestPausedRun pauses a pipeline from another process while tasks of it run: those finish, no other one starts, and the
// run goes on when the pause is over.
func TestPausedRun(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		t.Run("waits", func(t *testing.T) {
			t.Parallel()
			p := threeTaskProject(t, on)
			runner := p.startStopped(t, "phase recorded#1", runOf("ACT")...)
			p.etl(t, "pause", "--pipeline", "ACT", "--reason", "the source moves")
			runner.goOn()
			p.heldByPause(t, runner, "one 1 SUCCESS", "three 0 PENDING", "two 0 PENDING")
		})
		t.Run("killed", func(t *testing.T) {
			t.Parallel()
			p := threeTaskProject(t, on)
			runner := p.startStopped(t, "phase recorded#1", runOf("ACT")...)
			p.etl(t, "pause", "--pipeline", "ACT", "--reason", "the source moves")
			runner.kill()
			runner.wait()
			p.refusedWhilePaused(t)
			p.etl(t, "resume", "--pipeline", "ACT")
			p.etl(t, runOf("ACT")...)
			same(t, "tasks", []string{"one 2 SUCCESS", "three 1 SUCCESS", "two 1 SUCCESS"}, p.tasksOfACT(t))
			for _, target := range []string{"one", "two", "three"} {
				same(t, "loads of "+target, []string{"10"}, p.loaded(t, target))
			}
		})
	})
}

// TestPausedParallelTasks is the same with two tasks at once, which wait for tables that the test has locked.
func TestPausedParallelTasks(t *testing.T) {
	t.Parallel()
	onSystems(t, warehousePostgres, func(t *testing.T, on system) {
		p := threeTaskProject(t, on)
		p.configure(t, settings{orchestration: "max_parallel_tasks: 2"})
		p.warehouse.use(t, func(db database) {
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.Exec("LOCK TABLE t.one, t.two IN EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			runner := p.start(t, "", runOf("ACT")...)
			eventually(t, "two tasks run", func() bool {
				return p.engine.count(t, "SELECT count(*) FROM AUD_TASK_ATTEMPTS WHERE STATUS = 'RUNNING'") == 2
			})
			p.etl(t, "pause", "--pipeline", "ACT", "--reason", "the source moves")
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			p.heldByPause(t, runner, "one 1 SUCCESS", "three 0 PENDING", "two 1 SUCCESS")
		})
	})
}

// heldByPause expects that the runner leaves its run unfinished, with these tasks, and that the run goes on after the pause.
func (p project) heldByPause(t *testing.T, runner *process, tasks ...string) {
	t.Helper()
	runner.fail(8, "is left unfinished: the pipeline was paused by ")
	same(t, "hint", "etl-craft resume --pipeline ACT && etl-craft run --pipeline ACT", runner.hint())
	same(t, "tasks", tasks, p.tasksOfACT(t))
	p.refusedWhilePaused(t)
	p.etl(t, "resume", "--pipeline", "ACT")
	p.etl(t, runOf("ACT")...)
	p.once(t)
}

func (p project) refusedWhilePaused(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{runOf("ACT"), append(runOf("ACT"), "--task", "two")} {
		refused := p.start(t, "", args...)
		refused.fail(5, "pipeline ACT is paused by ")
		if !refused.printed("hint: etl-craft resume --pipeline ACT") {
			t.Errorf("it does not say how to resume: %s", refused)
		}
	}
}

// tasksOfACT are the tasks of the only run of ACT, with their attempts and states.
func (p project) tasksOfACT(t *testing.T) (tasks []string) {
	t.Helper()
	p.engine.use(t, func(db database) {
		tasks = db.texts(t, `SELECT t.TASK_CODE || ' ' || (SELECT count(*) FROM AUD_TASK_ATTEMPTS a WHERE a.TASK_RUN_ID = l.TASK_RUN_ID) || ' ' || l.STATUS
			FROM AUD_TASK_RUN_LOG l JOIN CFG_TASKS t ON t.TASK_ID = l.TASK_ID JOIN CFG_PIPELINES p ON p.PIPELINE_ID = t.PIPELINE_ID
			WHERE p.PIPELINE_CODE = 'ACT' ORDER BY 1`)
	})
	return tasks
}
