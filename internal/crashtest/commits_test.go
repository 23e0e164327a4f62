package crashtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// story is a command that is killed behind each of its commits in the Engine DB, after which two processes give the
// command that goes on, at once.
type story struct {
	project func(*testing.T, system) project
	before  func(*testing.T, project) // what happens before the command
	command []string
	goOn    []string                  // the command itself, when nil
	exits   []int                     // what the two processes may end with, beside success
	hold    string                    // the point where the first of the two is held until the other one is over; "" for none
	after   func(*testing.T, project) // what has to happen afterwards
	done    string                    // the commit from which on there is nothing left to do; "" for none
	last    string                    // the commit from which on the command would begin anew; "" for none
	own     bool                      // only the command's own commits, not those that record that it was given
}

// commits are the points behind the commits of a command, in their order. Those of heartbeats come when they come.
func (p project) commits(t *testing.T, s story) (points []string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "points")
	p.etl(t, append(slices.Clone(s.command), "trace="+trace)...)
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for point := range strings.Lines(string(b)) {
		point = strings.TrimSpace(point)
		if point == s.last {
			break
		}
		commit, ok := strings.CutPrefix(point, "committed: ")
		if ok && !strings.HasPrefix(commit, "extend the leases") && !(s.own && strings.HasPrefix(commit, "record the command")) {
			points = append(points, point)
		}
	}
	if len(points) == 0 {
		t.Fatalf("the command commits nothing: %s", b)
	}
	return points
}

// records is what must be the same however often the work was interrupted: the runs and tasks, what was used up, the
// rows of each table by runs, and that nothing is left open.
func (p project) records(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{"used up": p.consumed(t)}
	p.engine.use(t, func(db database) {
		found["runs"] = db.texts(t, `SELECT p.PIPELINE_CODE || ' ' || CAST(r.RUN_DATE AS VARCHAR(10)) || ' ' || r.TRIGGER_KIND || ' ' || r.STATUS || ' ' || r.OUTPUT_REVISION
			FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID ORDER BY r.PIPELINE_RUN_ID`)
		found["tasks"] = db.texts(t, `SELECT t.TASK_CODE || ' ' || l.STATUS || ' ' || COALESCE(l.SKIP_REASON, '-') || ' ' || COALESCE(l.ROWS_WRITTEN, -1)
			FROM AUD_TASK_RUN_LOG l JOIN CFG_TASKS t ON t.TASK_ID = l.TASK_ID ORDER BY l.PIPELINE_RUN_ID, t.TASK_CODE`)
		found["open"] = db.texts(t, `SELECT 'attempt ' || STATUS FROM AUD_TASK_ATTEMPTS WHERE ENDED_AT IS NULL
			UNION ALL SELECT 'wait at a gate' FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL
			UNION ALL SELECT 'owned run' FROM AUD_PIPELINES_RUN_LOG WHERE OWNER_ID IS NOT NULL
			UNION ALL SELECT 'pause' FROM AUD_PIPELINE_PAUSES WHERE RESUMED_AT IS NULL`)
	})
	p.warehouse.use(t, func(db database) {
		for _, table := range db.texts(t, "SELECT table_name FROM information_schema.tables WHERE table_schema = 't' ORDER BY 1") {
			found["rows of "+table] = db.texts(t, "SELECT CAST(count(*) AS VARCHAR) FROM t."+table+" GROUP BY pipeline_run_id")
		}
	})
	return found
}

// tell carries a story out on each system.
func (s story) tell(t *testing.T, meant func(system) bool) {
	onSystems(t, meant, func(t *testing.T, on system) {
		begin := func(t *testing.T) project {
			t.Helper()
			p := s.project(t, on)
			if s.before != nil {
				s.before(t, p)
			}
			return p
		}
		finish := func(t *testing.T, p project) map[string][]string {
			t.Helper()
			if s.after != nil {
				s.after(t, p)
			}
			return p.records(t)
		}
		calm := begin(t)
		points := calm.commits(t, s)
		want := finish(t, calm)
		for i, point := range points {
			t.Run(strings.TrimPrefix(point, "committed: "), func(t *testing.T) {
				t.Parallel()
				p := begin(t)
				killed := p.start(t, "kill="+point, s.command...)
				if code := killed.wait(); code != -1 {
					t.Fatalf("the program was to be killed, but its exit code is %d: %s", code, killed)
				}
				s.takeOver(t, p, s.done != "" && i >= slices.Index(points, s.done))
				same(t, "after going on", want, finish(t, p))
			})
		}
	})
}

// takeOver has two processes go on at once, of which one has to succeed, unless all is done already.
func (s story) takeOver(t *testing.T, p project, done bool) {
	t.Helper()
	goOn, fault := s.goOn, ""
	if goOn == nil {
		goOn = s.command
	}
	if s.hold != "" {
		fault = "stop=" + s.hold
	}
	two := []*process{p.start(t, fault, goOn...), p.start(t, fault, goOn...)}
	if s.hold != "" {
		p.firstStopped(t, two).goOn()
	}
	succeeded := 0
	for _, r := range two {
		switch code := r.wait(); {
		case code == 0:
			succeeded++
		case !slices.Contains(s.exits, code) || !r.printed("hint: "):
			t.Errorf("exit code %d, want 0 or, with a hint, one of %v: %s", code, s.exits, r)
		}
	}
	if succeeded == 0 && !done {
		t.Errorf("neither process went on: %s%s", two[0], two[1])
	}
}

// TestKilledRun is about a run with gates, with a task that is skipped, and on PostgreSQL with one that is tried again.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	const more = `
  - task: gated
    depends_on: [build, {task: RAW.land, on: HAS_DATA}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.gated, SOURCE_SQL: SELECT id FROM raw.rows}
  - task: never
    depends_on: [{task: build, on: FAILURE}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.never, SOURCE_SQL: SELECT id FROM raw.rows}`
	const flaky = `
  - task: flaky
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.flaky, SOURCE_SQL: "SELECT id, raw.flaky() AS n FROM raw.rows", RETRIES: 1, RETRY_DELAY_SECONDS: 1}`
	story{
		project: func(t *testing.T, on system) project {
			if on.warehouse != "postgres" {
				return gatedProject(t, on, more)
			}
			p := gatedProject(t, on, more+flaky)
			p.warehouse.use(t, func(db database) {
				db.exec(t, "CREATE SEQUENCE raw.calls")
				db.exec(t, `CREATE FUNCTION raw.flaky() RETURNS integer LANGUAGE plpgsql AS $$
					BEGIN
						IF nextval('raw.calls') = 1 THEN RAISE EXCEPTION 'too busy' USING ERRCODE = '53000'; END IF;
						RETURN 1;
					END $$`)
			})
			return p
		},
		before:  func(t *testing.T, p project) { p.etl(t, runOf("RAW")...) },
		command: runOf("SALES"),
		exits:   []int{5, 7},
		done:    "committed: end the run#1",
		after: func(t *testing.T, p project) {
			p.start(t, "", runOf("SALES")...).fail(7, "waits for RAW on SUCCESS")
		},
	}.tell(t, func(on system) bool { return on.name != "postgres and duckdb" })
}

// TestKilledSuccessor is about the process that goes on with a run whose first process was killed, before it was recorded
// that a merge has committed.
func TestKilledSuccessor(t *testing.T) {
	t.Parallel()
	merge := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == "scd1" })]
	story{
		project: func(t *testing.T, on system) project { return newProject(t, on, merge) },
		before:  func(t *testing.T, p project) { p.start(t, "kill=before outcome#1", act...).wait() },
		command: act,
		exits:   []int{5},
		hold:    "before run end",
		last:    "committed: end the run#1",
	}.tell(t, unmixed)
}

// TestKilledOrchestratorCall is about the three calls of an orchestrator, which it gives again.
func TestKilledOrchestratorCall(t *testing.T) {
	t.Parallel()
	call := func(args ...string) []string {
		return append([]string{"run", "--pipeline", "ACT", "--run-key", "nightly"}, args...)
	}
	all := [][]string{call("--init-only"), call("--task", "one"), call("--task", "two"), call("--task", "three"), call("--finalize-only")}
	calls := func(t *testing.T, p project, of [][]string) {
		t.Helper()
		for _, args := range of {
			p.etl(t, args...)
		}
	}
	for name, i := range map[string]int{"init": 0, "task": 1, "finalize": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story{
				project: func(t *testing.T, on system) project {
					p := threeTaskProject(t, on)
					p.configure(t, settings{orchestration: "mode: remote"})
					return p
				},
				before:  func(t *testing.T, p project) { calls(t, p, all[:i]) },
				command: all[i],
				exits:   []int{5}, // the task is running, or was run meanwhile
				after:   func(t *testing.T, p project) { calls(t, p, all[i+1:]) },
			}.tell(t, unmixed)
		})
	}
}

// TestKilledOperator is about what operators do to a run of which one task has succeeded and two are left.
func TestKilledOperator(t *testing.T) {
	t.Parallel()
	on := func(command string, args ...string) []string {
		return append([]string{command, "--pipeline", "ACT", "--reason", "by hand"}, args...)
	}
	for name, s := range map[string]story{
		"mark a task":  {command: on("mark", "--task", "two", "--status", "SUCCESS", "--rows", "7")},
		"mark the run": {command: on("mark", "--status", "FAILED"), exits: []int{4}, done: "committed: mark the run#1"},
		"skip a task":  {command: on("skip", "--task", "two"), exits: []int{5}, done: "committed: mark the task#1"},
		"skip the run": {command: on("skip"), exits: []int{4, 5}, done: "committed: skip the run#1"},
		"cancel":       {command: on("cancel"), exits: []int{4, 5}, done: "committed: cancel the run#1"},
		"pause":        {command: on("pause"), exits: []int{5}, done: "committed: pause the pipeline#1"},
		"reconcile":    {command: []string{"reconcile", "--pipeline", "ACT"}},
		"resume": {
			command: []string{"resume", "--pipeline", "ACT"},
			before:  func(t *testing.T, p project) { p.etl(t, on("pause")...) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := s.before
			s.project, s.own = threeTaskProject, name != "mark a task"
			s.before = func(t *testing.T, p project) {
				p.start(t, "kill=phase recorded#2", runOf("ACT")...).wait()
				if before != nil {
					before(t, p)
				}
			}
			s.tell(t, unmixed)
		})
	}
}

// TestKilledAtDayBoundary is about a backfill, which another process goes on with while it refuses a third one.
func TestKilledAtDayBoundary(t *testing.T) {
	t.Parallel()
	story{
		project: daysProject,
		command: []string{"run", "--pipeline", "DAYS", "--backfill", "2026-09-01:2026-09-02", "--reason", "lost"},
		exits:   []int{5},
		hold:    "after a day",
		last:    "committed: end the run#2",
	}.tell(t, unmixed)
}

// TestKilledAtGate is about a process that waits for an upstream that is running. Two others go on with its wait.
func TestKilledAtGate(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		for _, point := range []string{"committed: wait for the gate#1", "committed: wait for the gate#2"} {
			t.Run(strings.TrimPrefix(point, "committed: "), func(t *testing.T) {
				t.Parallel()
				p := gatedProject(t, on, "")
				raw := p.startStopped(t, "before run end", runOf("RAW")...)
				p.start(t, "kill="+point, runOf("SALES")...).wait()
				until := func() (list []string) {
					p.engine.use(t, func(db database) {
						list = db.texts(t, "SELECT CAST(WAIT_UNTIL AS VARCHAR(40)) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL")
					})
					return list
				}
				first := until()
				two := []*process{p.start(t, "", runOf("SALES")...), p.start(t, "", runOf("SALES")...)}
				eventually(t, "both look at the gate", func() bool {
					return p.engine.count(t, "SELECT max(LOOKS) FROM AUD_GATE_WAITS") >= 3
				})
				same(t, "the deadline of the wait", first, until())
				raw.goOn()
				raw.succeed()
				codes := []int{two[0].wait(), two[1].wait()}
				slices.Sort(codes)
				if codes[0] != 0 || codes[1] != 5 && codes[1] != 7 {
					t.Errorf("exit codes %v, want 0, and 5 or 7: %s%s", codes, two[0], two[1])
				}
				same(t, "what was used up", []string{"SALES 1 1"}, p.consumed(t))
				same(t, "loads", []string{"10"}, p.loaded(t, "sales"))
			})
		}
	})
}
