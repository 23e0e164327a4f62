package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// loads are n tasks that may run in parallel: each makes a target of its own and loads it with every kind of write.
func loads(name string, n int) string {
	var tasks strings.Builder
	for i := range n {
		fmt.Fprintf(&tasks, `
  - task: load%d
    params: {SQL_ACTION: %s, TARGET_OBJECT: t.%s%d%s}`, i, []string{"CREATE_TABLE", "SCD1_MERGE"}[i%2], name, i, []string{rows, merge + rows}[i%2])
	}
	return tasks.String()
}

// setups are the targets of those tasks that do not make theirs.
func setups(name string, n int) string {
	var tasks strings.Builder
	for i := 1; i < n; i += 2 {
		fmt.Fprintf(&tasks, `
  - task: %s%d
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.%s%d, SETUP_FOR: SCD1_MERGE%s}`, name, i, name, i, rows)
	}
	return tasks.String()
}

const rounds = 3

// TestProcessesShareDuckDB has two processes with two tasks each at once in one DuckDB file.
func TestProcessesShareDuckDB(t *testing.T) {
	t.Parallel()
	onSystems(t, warehouseDuckDB, func(t *testing.T, on system) {
		p := makeProject(t, on, map[string]string{"A": loads("a", 4), "B": loads("b", 4), "PREPARE": setups("a", 4) + setups("b", 4)})
		p.configure(t, settings{orchestration: "max_parallel_tasks: 2"})
		p.etl(t, "run", "--pipeline", "PREPARE")
		for range rounds {
			a, b := p.start(t, "", "run", "--pipeline", "A", "-o", "json"), p.start(t, "", "run", "--pipeline", "B", "-o", "json")
			a.checkCalm(4)
			b.checkCalm(4)
		}
		for _, name := range []string{"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"} {
			if n := p.warehouse.count(t, "SELECT count(*) FROM t."+name); n != 10 {
				t.Errorf("t.%s has %d rows, want 10", name, n)
			}
		}
		p.checkLogs(t)
	})
}

// TestTasksShareSQLite has eight tasks at once on one SQLite Engine DB, in one process and in eight.
func TestTasksShareSQLite(t *testing.T) {
	t.Parallel()
	const n = 8
	onSystems(t, engineSQLite, func(t *testing.T, on system) {
		prepare := func(t *testing.T, orchestration string) project {
			p := makeProject(t, on, map[string]string{"ACT": loads("a", n), "PREPARE": setups("a", n)})
			p.etl(t, "run", "--pipeline", "PREPARE")
			p.configure(t, settings{orchestration: orchestration})
			return p
		}
		t.Run("one process", func(t *testing.T) {
			p := prepare(t, fmt.Sprintf("max_parallel_tasks: %d", n))
			for range rounds {
				p.start(t, "", actJSON...).checkCalm(n)
			}
			p.checkLogs(t)
		})
		t.Run("eight processes", func(t *testing.T) {
			p := prepare(t, "mode: remote")
			for round := range rounds {
				key := fmt.Sprintf("round %d", round)
				p.etl(t, "run", "--pipeline", "ACT", "--init-only", "--run-key", key)
				var processes []*process
				for i := range n {
					processes = append(processes, p.start(t, "", "run", "--pipeline", "ACT", "--task", fmt.Sprintf("load%d", i), "--run-key", key))
				}
				for _, r := range processes {
					r.succeed()
				}
				p.start(t, "", "run", "--pipeline", "ACT", "--finalize-only", "--run-key", key, "-o", "json").checkCalm(n)
			}
			p.checkLogs(t)
		})
	})
}

// checkCalm expects that the run's tasks all succeeded, each in its first attempt, and logs how long their tail is.
func (r *process) checkCalm(tasks int) {
	r.t.Helper()
	doc := parse(r.t, r.succeed())
	if doc.Status != "SUCCESS" || len(doc.Tasks) != tasks {
		r.t.Errorf("%d tasks, want %d: %s", len(doc.Tasks), tasks, r)
	}
	var seconds []float64
	for _, task := range doc.Tasks {
		if task["status"] != "SUCCESS" || task["attempts"] != 1.0 {
			r.t.Errorf("task %s is %s after %v attempts", task["task"], task["status"], task["attempts"])
		}
		seconds = append(seconds, task["duration_seconds"].(float64))
	}
	slices.Sort(seconds)
	median, slowest := seconds[len(seconds)/2], seconds[len(seconds)-1]
	r.t.Logf("%s: the slowest of %d tasks took %.3f s, %.1f times the median", doc.Pipeline, tasks, slowest, slowest/median)
}

var trouble = regexp.MustCompile(`(?i)\b(busy|locked|error|fail|panic)`)

// checkLogs expects no trouble in the logs of the attempts. An action that DuckDB makes start again, because parallel
// transactions collided, is none.
func (p project) checkLogs(t *testing.T) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(p.dir, "logs", "*", "*", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%d logs: %v", len(logs), err)
	}
	collided := 0
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.Contains(line, "parallel transactions collided"):
				collided++
			case trouble.MatchString(line):
				t.Errorf("%s: %s", log, line)
			}
		}
	}
	t.Logf("%d actions started again after a collision", collided)
}
