package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// gatedProject has the pipeline RAW and two that depend on it: SALES as a whole, with more tasks, and REPORT by its only task.
func gatedProject(t *testing.T, on system, more string) project {
	t.Helper()
	appends := func(task, target, more string) string {
		return `
  - task: ` + task + more + `
    params: {SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: t.` + target + `, SOURCE_SQL: SELECT id FROM raw.rows}`
	}
	setups := ""
	for _, name := range []string{"landed", "sales", "report"} {
		setups += `
  - task: ` + name + `
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.` + name + `, SETUP_FOR: APPEND_TABLE, SOURCE_SQL: SELECT id FROM raw.rows}`
	}
	p := makeProject(t, on, map[string]string{
		"PREPARE": setups,
		"RAW":     appends("land", "landed", ""),
		"SALES":   appends("build", "sales", "") + more + "\ndepends_on: [{pipeline: RAW, on: SUCCESS}]",
		"REPORT":  appends("show", "report", "\n    depends_on: [{task: RAW.land, on: HAS_DATA}]"),
	})
	p.etl(t, "run", "--pipeline", "PREPARE")
	return p
}

func runOf(pipeline string) []string { return []string{"run", "--pipeline", pipeline} }

// consumed is which runs were used up by whom: the pipeline, the number of the run among those of RAW, its revision.
func (p project) consumed(t *testing.T) (list []string) {
	t.Helper()
	p.engine.use(t, func(db database) {
		list = db.texts(t, `SELECT p.PIPELINE_CODE || ' ' || (SELECT count(*) FROM AUD_PIPELINES_RUN_LOG r
				WHERE r.PIPELINE_ID = c.DEPENDS_ON_PIPELINE_ID AND r.PIPELINE_RUN_ID <= c.CONSUMED_PIPELINE_RUN_ID) || ' ' || c.CONSUMED_REVISION
			FROM AUD_DEPENDENCY_CONSUMPTION c JOIN CFG_PIPELINES p ON p.PIPELINE_ID = c.PIPELINE_ID ORDER BY 1`)
	})
	return list
}

// loaded is how often a pipeline has loaded its target, and how often each time.
func (p project) loaded(t *testing.T, target string) (list []string) {
	t.Helper()
	p.warehouse.use(t, func(db database) {
		list = db.texts(t, "SELECT CAST(count(*) AS VARCHAR) FROM t."+target+" GROUP BY pipeline_run_id")
	})
	return list
}

// ranOnce expects that the dependents of RAW have each loaded its rows so many times, and have used up these runs.
func (p project) ranOnce(t *testing.T, times int, consumed ...string) {
	t.Helper()
	same(t, "what was used up", consumed, p.consumed(t))
	for _, target := range []string{"sales", "report"} {
		same(t, "loads of "+target, slices.Repeat([]string{"10"}, times), p.loaded(t, target))
	}
}

// TestGateWaitsForTheEnd starts dependents while the upstream is about to end: they wait for it, and use it up once each.
func TestGateWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		p := gatedProject(t, on, "")
		raw := p.startStopped(t, "before run end", runOf("RAW")...)
		sales, report := p.start(t, "", runOf("SALES")...), p.start(t, "", runOf("REPORT")...)
		eventually(t, "both wait", func() bool {
			waits := p.engine.count(t, "SELECT count(*) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL")
			return waits == 2 || waits == 1 && report.waitsForFile()
		})
		raw.goOn()
		raw.succeed()
		sales.succeed()
		report.succeed()
		p.ranOnce(t, 1, "REPORT 1 1", "SALES 1 1")
		p.start(t, "", runOf("SALES")...).fail(7, "no run that succeeded since run ")
		p.start(t, "", runOf("REPORT")...).succeed()
		p.ranOnce(t, 1, "REPORT 1 1", "SALES 1 1")
		if n := p.engine.count(t, "SELECT count(*) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL"); n != 0 {
			t.Errorf("%d waits are left", n)
		}
	})
}

// TestGateAtTheEnd starts dependents when the upstream's end is recorded, but its process is still there.
func TestGateAtTheEnd(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		p := gatedProject(t, on, "")
		raw := p.startStopped(t, "committed: end the run", runOf("RAW")...)
		sales, report := p.start(t, "", runOf("SALES")...), p.start(t, "", runOf("REPORT")...)
		if on.warehouse == "duckdb" { // the file is still with the process that is stopped
			eventually(t, "both have passed or need no gate, and wait for the file", func() bool { return sales.waitsForFile() && report.waitsForFile() })
			raw.goOn()
		}
		sales.succeed()
		report.succeed()
		raw.goOn()
		raw.succeed()
		p.ranOnce(t, 1, "REPORT 1 1", "SALES 1 1")
	})
}

// TestGateDecidedTwice has two processes of one dependent decide before either has started its run. Only one may start.
func TestGateDecidedTwice(t *testing.T) {
	t.Parallel()
	const decided = "committed: end the wait for the gate"
	onSystems(t, unmixed, func(t *testing.T, on system) {
		p := gatedProject(t, on, "")
		p.etl(t, runOf("RAW")...)
		late := p.startStopped(t, decided, runOf("SALES")...)
		p.etl(t, runOf("SALES")...)
		late.goOn()
		late.fail(5, "was started by another process meanwhile and is SUCCESS")
		same(t, "what was used up", []string{"SALES 1 1"}, p.consumed(t))
		same(t, "loads", []string{"10"}, p.loaded(t, "sales"))

		// An earlier run that is opened again uses up what a new one has decided on.
		p.etl(t, runOf("RAW")...)
		id := fmt.Sprint(p.engine.count(t, "SELECT max(PIPELINE_RUN_ID) FROM AUD_PIPELINES_RUN_LOG") + 1)
		p.start(t, "kill=run admitted", runOf("SALES")...).wait()
		p.etl(t, "mark", "--pipeline", "SALES", "--status", "FAILED", "--reason", "by hand")
		late = p.startStopped(t, decided, runOf("SALES")...)
		p.etl(t, append(runOf("SALES"), "--run-id", id)...)
		late.goOn()
		late.fail(5, "was used up by another run of it meanwhile")
		same(t, "what was used up", []string{"SALES 1 1", "SALES 2 1"}, p.consumed(t))
		p.start(t, "", runOf("SALES")...).fail(7, "waits for RAW on SUCCESS")
	})
}

// TestGateAndRepair repairs the upstream while a dependent starts: before its decision, and between decision and start.
// The repair is used up once, whoever was first.
func TestGateAndRepair(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		repair := func(p project) []string {
			id := p.engine.count(t, "SELECT max(r.PIPELINE_RUN_ID) FROM AUD_PIPELINES_RUN_LOG r JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID WHERE p.PIPELINE_CODE = 'RAW'")
			return append(runOf("RAW"), "--run-id", fmt.Sprint(id), "--force", "--reason", "corrected")
		}
		t.Run("after the decision", func(t *testing.T) {
			t.Parallel()
			p := gatedProject(t, on, "")
			p.etl(t, runOf("RAW")...)
			sales := p.startStopped(t, "committed: end the wait for the gate", runOf("SALES")...)
			p.etl(t, repair(p)...)
			sales.goOn()
			sales.succeed()
			p.etl(t, runOf("SALES")...)
			p.etl(t, runOf("REPORT")...)
			same(t, "what was used up", []string{"REPORT 1 2", "SALES 1 1", "SALES 1 2"}, p.consumed(t))
			p.start(t, "", runOf("SALES")...).fail(7, "waits for RAW on SUCCESS")
		})
		t.Run("before the decision", func(t *testing.T) {
			t.Parallel()
			p := gatedProject(t, on, "")
			p.etl(t, runOf("RAW")...)
			raw := p.startStopped(t, "tasks run again", repair(p)...)
			sales := p.start(t, "", runOf("SALES")...)
			eventually(t, "the dependent waits", func() bool {
				return p.engine.count(t, "SELECT count(*) FROM AUD_GATE_WAITS WHERE NEXT_CHECK_AT IS NOT NULL") == 1
			})
			raw.goOn()
			raw.succeed()
			sales.succeed()
			same(t, "what was used up", []string{"SALES 1 2"}, p.consumed(t))
			p.start(t, "", runOf("SALES")...).fail(7, "waits for RAW on SUCCESS")
		})
	})
}

// TestGatesAndUpstreamTogether starts an upstream and its dependents in the same moment, again and again.
func TestGatesAndUpstreamTogether(t *testing.T) {
	t.Parallel()
	onSystems(t, unmixed, func(t *testing.T, on system) {
		p := gatedProject(t, on, "")
		for range rounds {
			raw := p.start(t, "", runOf("RAW")...)
			sales := []*process{p.start(t, "", runOf("SALES")...), p.start(t, "", runOf("SALES")...)}
			report := p.start(t, "", runOf("REPORT")...)
			raw.succeed()
			report.succeed()
			for _, r := range sales {
				if code := r.wait(); code != 0 && (code != 5 && code != 7 || !r.printed("hint: ")) {
					t.Errorf("exit code %d, want 0, or 5 or 7 with a hint: %s", code, r)
				}
			}
		}
		p.start(t, "", runOf("SALES")...).wait()
		p.start(t, "", runOf("SALES")...).fail(7, "waits for RAW on SUCCESS")
		p.etl(t, runOf("REPORT")...)
		used := p.consumed(t)
		same(t, "what was used up twice", nil, twice(used))
		for target, pipeline := range map[string]string{"sales": "SALES", "report": "REPORT"} {
			newest := fmt.Sprint(pipeline, " ", rounds, " 1")
			if !slices.Contains(used, newest) {
				t.Errorf("%s is not among what was used up: %v", newest, used)
			}
			n := 0
			for _, u := range used {
				if strings.HasPrefix(u, pipeline) {
					n++
				}
			}
			same(t, "loads of "+target, slices.Repeat([]string{"10"}, n), p.loaded(t, target))
		}
	})
}

// twice are the elements of a sorted list that stand in it more than once.
func twice(sorted []string) (repeated []string) {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			repeated = append(repeated, sorted[i])
		}
	}
	return repeated
}
