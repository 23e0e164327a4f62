package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

const threeDays = `
  - task: act
    depends_on: [setup]
    params:
      SQL_ACTION: APPEND_TABLE
      TARGET_OBJECT: t.days
      RUN_DATE_SUBSTITUTION: true
      SOURCE_SQL: SELECT CAST($$run_date AS DATE) AS day, id FROM raw.rows WHERE id < 2
  - task: after
    depends_on: [{task: act, on: HAS_DATA}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: t.after, SOURCE_SQL: SELECT 1 AS one}
  - task: setup
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.days, SOURCE_SQL: "SELECT DATE '2026-01-01' AS day, id FROM raw.rows"}`

// TestKilledBackfill kills a backfill at points of its second day, and between two days. The same command goes on with the
// day it was at, and no day is done twice.
func TestKilledBackfill(t *testing.T) {
	t.Parallel()
	same3 := func(on system) bool {
		return on.engine == "sqlite" && on.warehouse == "duckdb" || on.engine == "postgres" && !on.mixed()
	}
	onSystems(t, same3, func(t *testing.T, on system) {
		for _, point := range []string{
			"after run end#1", "after a day#1", "run admitted#2", "attempt started#4", "phase recorded#4", "before commit#4",
			"before outcome#5", "after outcome#6", "before run end#2", "after run end#2", "after a day#2",
		} {
			t.Run(strings.ReplaceAll(point, " ", "_"), func(t *testing.T) {
				t.Parallel()
				p := daysProject(t, on)
				backfill := []string{"run", "--pipeline", "DAYS", "--backfill", "2026-09-01:2026-09-03", "--reason", "lost", "-o", "json"}
				killed := p.start(t, "kill="+point, backfill...)
				if code := killed.wait(); code != -1 {
					t.Fatalf("the program was to be killed, but its exit code is %d: %s", code, killed)
				}
				if point == "attempt started#4" { // the other ways to run the pipeline are refused meanwhile
					p.start(t, "", "run", "--pipeline", "DAYS").fail(5, "belongs to a backfill")
				}
				var doc struct {
					Runs      []runDocument `json:"runs"`
					StoppedAt *string       `json:"stopped_at"`
				}
				if err := json.Unmarshal([]byte(p.etl(t, backfill...)), &doc); err != nil {
					t.Fatal(err)
				}
				var days []string
				for _, r := range doc.Runs {
					days = append(days, fmt.Sprint(r.Status, " ", r.Tasks[0]["rows_written"], " ", r.Tasks[1]["status"]))
				}
				same(t, "the days", []string{"SUCCESS 2 SUCCESS", "SUCCESS 2 SUCCESS", "SUCCESS 2 SUCCESS"}, days)
				p.threeDaysDone(t)
			})
		}
	})
}

// TestKilledRerun kills the program behind the step that makes finished tasks run again. The run is unfinished then, and
// the usual command carries out what was asked for.
func TestKilledRerun(t *testing.T) {
	t.Parallel()
	onSystems(t, func(on system) bool { return !on.mixed() }, func(t *testing.T, on system) {
		for flags, attempts := range map[string]string{
			"--force":                              "2 2",
			"--task act --rerun":                   "2 1",
			"--task act --rerun --with-downstream": "2 2",
		} {
			t.Run(flags, func(t *testing.T) {
				p := newProject(t, on, scenarios[0])
				doc := parse(t, p.etl(t, actJSON...))
				again := append([]string{"run", "--pipeline", "ACT", "--run-id", fmt.Sprint(doc.RunID), "--reason", "r"}, strings.Fields(flags)...)
				killed := p.start(t, "kill=tasks run again", again...)
				if code := killed.wait(); code != -1 {
					t.Fatalf("the program was to be killed, but its exit code is %d: %s", code, killed)
				}
				doc = parse(t, p.etl(t, actJSON...))
				same(t, "attempts", attempts, fmt.Sprint(doc.Tasks[0]["attempts"], " ", doc.Tasks[1]["attempts"]))
				same(t, "status", "SUCCESS", doc.Status)
				p.engine.use(t, func(db database) {
					same(t, "revision", []string{"2 N"}, db.texts(t, "SELECT OUTPUT_REVISION || ' ' || REPAIR_PENDING FROM AUD_PIPELINES_RUN_LOG"))
				})
			})
		}
	})
}

// TestInterruptedBackfill interrupts a backfill in its second day, once and twice, and goes on with the command that it
// prints.
func TestInterruptedBackfill(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		for _, point := range []string{
			"committed: record the command#1", "after run end#1", "run admitted#2", "attempt started#4", "phase recorded#4", "before run end#2",
		} {
			for how, signals := range map[string][]os.Signal{"once": {syscall.SIGINT}, "twice": {syscall.SIGINT, syscall.SIGTERM}} {
				t.Run(how+" "+point, func(t *testing.T) {
					t.Parallel()
					p := daysProject(t, on)
					r := p.startStopped(t, point, backfillDays...)
					for _, s := range signals { // they arrive when it goes on
						r.signal(s)
					}
					r.goOn()
					r.fail(130, "error: interrupted")
					hint := r.hint()
					begins := "etl-craft run --pipeline DAYS --backfill 2026-09-0"
					if rest, ok := strings.CutPrefix(hint, begins); !ok || rest[1:] != ":2026-09-03 --reason 'lost days'" {
						t.Errorf("the hint is %s", hint)
					}
					p.startPasted(t, hint).succeed()
					p.threeDaysDone(t)
				})
			}
		}
	})
}

// TestBackfillTwice gives the same backfill to two processes at once. One carries it out, and the other is told which.
func TestBackfillTwice(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		p := daysProject(t, on)
		two := []*process{p.start(t, "stop=after a day", backfillDays...), p.start(t, "stop=after a day", backfillDays...)}
		first := p.firstStopped(t, two)
		for _, r := range two {
			if r != first {
				r.fail(5, fmt.Sprint("a backfill of pipeline DAYS is under way, by process ", first.cmd.Process.Pid, " on host "))
			}
		}
		first.goOn()
		first.succeed()
		p.threeDaysDone(t)
	})
}

var backfillDays = []string{"run", "--pipeline", "DAYS", "--backfill", "2026-09-01:2026-09-03", "--reason", "lost days"}

func daysProject(t *testing.T, on system) project {
	t.Helper()
	return makeProject(t, on, map[string]string{"DAYS": threeDays})
}

// threeDaysDone expects one run for each day, which has written its rows once.
func (p project) threeDaysDone(t *testing.T) {
	t.Helper()
	p.engine.use(t, func(db database) {
		same(t, "the runs", []string{"2026-09-01 SUCCESS", "2026-09-02 SUCCESS", "2026-09-03 SUCCESS"}, db.texts(t,
			"SELECT CAST(RUN_DATE AS VARCHAR(10)) || ' ' || STATUS FROM AUD_PIPELINES_RUN_LOG ORDER BY PIPELINE_RUN_ID"))
	})
	p.warehouse.use(t, func(db database) {
		same(t, "the rows", []string{"2026-09-01 2 1", "2026-09-02 2 1", "2026-09-03 2 1"}, db.texts(t,
			"SELECT CAST(day AS VARCHAR) || ' ' || count(*) || ' ' || count(DISTINCT pipeline_run_id) FROM t.days GROUP BY day ORDER BY day"))
	})
}
