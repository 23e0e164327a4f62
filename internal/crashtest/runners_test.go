package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// threeTasks are appends to one table each, so that a task that runs in two runs leaves its rows twice.
const threeTasks = `
  - task: one
    params: {SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: t.one, SOURCE_SQL: SELECT id FROM raw.rows}
  - task: two
    params: {SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: t.two, SOURCE_SQL: SELECT id FROM raw.rows}
  - task: three
    depends_on: [one, two]
    params: {SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: t.three, SOURCE_SQL: SELECT id FROM raw.rows}`

func threeTargets() string {
	tasks := ""
	for _, name := range []string{"one", "two", "three"} {
		tasks += `
  - task: ` + name + `
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.` + name + `, SETUP_FOR: APPEND_TABLE, SOURCE_SQL: SELECT id FROM raw.rows}`
	}
	return tasks
}

func unmixed(on system) bool { return !on.mixed() }

// threeTaskProject is a project whose pipeline ACT has three tasks.
func threeTaskProject(t *testing.T, on system) project {
	t.Helper()
	p := makeProject(t, on, map[string]string{"ACT": threeTasks, "PREPARE": threeTargets()})
	p.etl(t, "run", "--pipeline", "PREPARE")
	return p
}

// once expects that ACT ran once, each of its tasks in one attempt, and that the run has ended well.
func (p project) once(t *testing.T) {
	t.Helper()
	p.engine.use(t, func(db database) {
		same(t, "runs", []string{"SUCCESS -"}, db.texts(t, `SELECT r.STATUS || ' ' || COALESCE(r.OWNER_ID, '-')
			FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID WHERE p.PIPELINE_CODE = 'ACT'`))
		same(t, "attempts", []string{"one 1 SUCCESS", "three 1 SUCCESS", "two 1 SUCCESS"}, db.texts(t, `
			SELECT t.TASK_CODE || ' ' || a.ATTEMPT_NUMBER || ' ' || a.STATUS
			FROM AUD_TASK_ATTEMPTS a JOIN AUD_TASK_RUN_LOG l ON l.TASK_RUN_ID = a.TASK_RUN_ID JOIN CFG_TASKS t ON t.TASK_ID = l.TASK_ID
			JOIN CFG_PIPELINES p ON p.PIPELINE_ID = t.PIPELINE_ID WHERE p.PIPELINE_CODE = 'ACT' ORDER BY 1`))
	})
	p.warehouse.use(t, func(db database) {
		for _, table := range []string{"one", "two", "three"} {
			if n := db.count(t, "SELECT count(*) FROM t."+table); n != 10 {
				t.Errorf("t.%s has %d rows, want 10", table, n)
			}
		}
	})
}

// TestRunnersTogether starts two and three processes that want to run the same pipeline. One does, and the others are
// told which.
func TestRunnersTogether(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		for _, n := range []int{2, 3} {
			for name, flags := range map[string][]string{"plain": nil, "one key": {"--run-key", "nightly"}, "resumed": nil, "reopened": nil} {
				t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
					t.Parallel()
					p := threeTaskProject(t, on)
					switch name {
					case "resumed":
						p.start(t, "kill=run admitted", "run", "--pipeline", "ACT").wait()
					case "reopened":
						p.start(t, "kill=run admitted", "run", "--pipeline", "ACT").wait()
						p.etl(t, "mark", "--pipeline", "ACT", "--status", "FAILED", "--reason", "by hand")
						flags = []string{"--run-id", fmt.Sprint(p.runOfACT(t))}
					}
					var all []*process
					for range n { // whoever is first stops before the end, so that the others come while it works
						all = append(all, p.start(t, "stop=before run end", append([]string{"run", "--pipeline", "ACT"}, flags...)...))
					}
					first := p.firstStopped(t, all)
					first.goOn()
					for _, r := range all {
						if r == first {
							continue
						}
						if code := r.wait(); code != 5 || !r.printed("hint: ") {
							t.Errorf("exit code %d, want 5 and a hint: %s", code, r)
						}
						if who := fmt.Sprint("process ", first.cmd.Process.Pid, " on host"); !r.printed(who) && !r.printed("by another process meanwhile") {
							t.Errorf("it does not say %q: %s", who, r)
						}
					}
					first.succeed()
					p.once(t)
					p.etl(t, "run", "--pipeline", "ACT", "--run-id", fmt.Sprint(p.runOfACT(t)))
					p.once(t)
				})
			}
		}
	})
}

// runOfACT is the newest run of the pipeline.
func (p project) runOfACT(t *testing.T) int {
	t.Helper()
	return p.engine.count(t, `SELECT max(PIPELINE_RUN_ID) FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID
		WHERE p.PIPELINE_CODE = 'ACT'`)
}

// firstStopped waits until one of the processes has stopped itself while all others are over, or wait for the DuckDB file
// that the stopped one may still have.
func (p project) firstStopped(t *testing.T, all []*process) (first *process) {
	t.Helper()
	eventually(t, "one process stops and the others are over", func() bool {
		first = nil
		for _, r := range all {
			switch {
			case r.state() == "T":
				if first != nil {
					t.Fatal("two processes work on the same run")
				}
				first = r
			case r.over(), r.waitsForFile():
			default:
				return false
			}
		}
		return first != nil
	})
	return first
}

// waitsForFile reports whether this process waits for the DuckDB file.
func (r *process) waitsForFile() bool {
	folder := fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		path, err := os.Readlink(filepath.Join(folder, f.Name()))
		return err == nil && strings.HasSuffix(path, ".duckdb.wait")
	})
}

// TestTasksTogether runs tasks of one run in processes of their own that start together, by a person and by an
// orchestrator. Each task runs once, also when two processes want the same one.
func TestTasksTogether(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		for _, mode := range []string{"local", "remote"} {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				p := threeTaskProject(t, on)
				run := []string{"run", "--pipeline", "ACT"}
				if mode == "remote" {
					p.configure(t, settings{orchestration: "mode: remote"})
					run = append(run, "--run-key", "nightly")
					p.together(t, 3, append(run, "--init-only"))
				}
				task := func(name string) []string { return append(slices.Clone(run), "--task", name) }

				one, two := p.start(t, "", task("one")...), p.start(t, "", task("two")...)
				one.succeed()
				two.succeed()

				both := []*process{p.start(t, "stop=before outcome", task("three")...), p.start(t, "stop=before outcome", task("three")...)}
				first := p.firstStopped(t, both)
				first.goOn()
				for _, r := range both {
					if r != first {
						if code := r.wait(); code != 5 || !r.printed("task three is running") && !r.printed("task three is SUCCESS") && !r.printed("another process") {
							t.Errorf("exit code %d, want 5 and why: %s", code, r)
						}
					}
				}
				first.succeed()
				if mode == "remote" {
					p.together(t, 3, append(run, "--finalize-only"))
				}
				p.once(t)
				p.configure(t, settings{})
				p.etl(t, "run", "--pipeline", "ACT", "--run-id", fmt.Sprint(p.runOfACT(t)))
				p.once(t)
			})
		}
	})
}

// together starts n processes with the same command, which must all succeed.
func (p project) together(t *testing.T, n int, args []string) {
	t.Helper()
	var all []*process
	for range n {
		all = append(all, p.start(t, "", args...))
	}
	for _, r := range all {
		r.succeed()
	}
}

// TestRunBesideTask has a process that runs the pipeline and one that runs a task of it at once, either of them first.
func TestRunBesideTask(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		t.Run("run first", func(t *testing.T) {
			t.Parallel()
			p := threeTaskProject(t, on)
			runner := p.startStopped(t, "run admitted", "run", "--pipeline", "ACT")
			p.start(t, "", "run", "--pipeline", "ACT", "--task", "one").fail(5, fmt.Sprint("process ", runner.cmd.Process.Pid, " on host"))
			runner.goOn()
			runner.succeed()
			p.once(t)
		})
		t.Run("task first", func(t *testing.T) {
			t.Parallel()
			p := threeTaskProject(t, on)
			task := p.startStopped(t, "attempt started", "run", "--pipeline", "ACT", "--task", "one")
			runner := p.start(t, "", "run", "--pipeline", "ACT")
			if on.warehouse == "postgres" { // a DuckDB file may stay with the process that is stopped
				runner.fail(8, fmt.Sprint("one (process ", task.cmd.Process.Pid, " on host"))
			}
			task.goOn()
			task.succeed()
			if code := runner.wait(); code != 0 && code != 8 {
				t.Errorf("exit code %d, want 0 or 8: %s", code, runner)
			}
			if p.engine.count(t, "SELECT count(*) FROM AUD_PIPELINES_RUN_LOG WHERE END_DATE IS NULL") > 0 {
				p.etl(t, "run", "--pipeline", "ACT")
			}
			p.once(t)
		})
	})
}

// TestTaskRunMeanwhile has two processes find a task ready; one runs it to its end before the other one starts. A DuckDB
// file would keep the first one waiting.
func TestTaskRunMeanwhile(t *testing.T) {
	t.Parallel()
	onSystems(t, warehousePostgres, func(t *testing.T, on system) {
		p := threeTaskProject(t, on)
		task := func(name string) []string { return []string{"run", "--pipeline", "ACT", "--task", name} }
		p.etl(t, task("one")...)
		late := p.startStopped(t, "committed: sync the tasks of the run", task("two")...)
		p.etl(t, task("two")...)
		late.goOn()
		late.fail(5, "task two is SUCCESS in run ")
		p.etl(t, task("three")...)
		p.once(t)
	})
}
