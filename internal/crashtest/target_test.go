package crashtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// contest is an action that two pipelines carry out on one target, three times each, as tasks that may run in parallel.
// Each task gives all ten rows a name of its own.
type contest struct{ name, action, params string }

var contests = []contest{
	{"appends", "APPEND_TABLE", ""},
	{"merges", "SCD2_MERGE", merge},
}

func (c contest) project(t *testing.T, on system) project {
	t.Helper()
	tasks := ""
	for _, name := range []string{"one", "two", "three"} {
		tasks += `
  - task: ` + name + `
    params:
      SQL_ACTION: ` + c.action + `
      TARGET_OBJECT: t.target
      SOURCE_SQL: SELECT id, 'by ' || $$task_run_id AS name, day FROM raw.rows
      TASK_RUN_ID_SUBSTITUTION: true`
		if c.params != "" {
			tasks += "\n      MERGE_KEY: id\n      MERGE_COMPARE_COLUMNS: name|day"
		}
	}
	p := makeProject(t, on, map[string]string{"PREPARE": prepared(c.action, c.params), "A": tasks, "B": tasks})
	p.etl(t, "run", "--pipeline", "PREPARE")
	return p
}

// contend starts one of the two pipelines with logs that show when a task got its lock.
func (p project) contend(t *testing.T, fault, pipeline string) *process {
	t.Helper()
	return p.start(t, fault, "run", "--pipeline", pipeline, "-o", "json", "--log-level", "debug", "--log-format", "json")
}

// TestTwoProcessesOneTarget lets two processes work on one target at once, each with tasks that run in parallel.
func TestTwoProcessesOneTarget(t *testing.T) {
	t.Parallel()
	onSystems(t, all, func(t *testing.T, on system) {
		for _, c := range contests {
			t.Run(c.name, func(t *testing.T) {
				p := c.project(t, on)
				p.configure(t, settings{orchestration: "max_parallel_tasks: 3"})
				var writes []write
				for range 3 {
					a, b := p.contend(t, "", "A"), p.contend(t, "", "B")
					writes = append(writes, p.writes(t, a.succeed())...)
					writes = append(writes, p.writes(t, b.succeed())...)
				}
				c.checkSerial(t, p, writes)
			})
		}
	})
}

// TestHolderKilled kills a process that has the target's lock while another one waits for it.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	onSystems(t, all, func(t *testing.T, on system) {
		for _, c := range contests {
			t.Run(c.name, func(t *testing.T) {
				p := c.project(t, on)
				holder := p.contend(t, "stop=before commit#1", "A")
				eventually(t, "the holder stops", func() bool { return holder.state() == "T" })
				if list := p.etl(t, "locks"); !strings.Contains(list, "t.target") || !strings.Contains(list, " A ") {
					t.Errorf("the lock of pipeline A is not listed: %s", list)
				}
				held := "is locked by pipeline A, task "
				if on.warehouse == "duckdb" { // where the file is waited for, before the target
					held = fmt.Sprint("process ", holder.cmd.Process.Pid, " on host ")
				}
				p.configure(t, settings{orchestration: "max_parallel_tasks: 1, lock_wait_seconds: 1"})
				p.start(t, "", "run", "--pipeline", "B", "--task", "one", "-o", "json").fail(6, held)
				p.configure(t, settings{})
				waiter := p.contend(t, "", "B")
				if on.warehouse == "postgres" {
					eventually(t, "an attempt of the waiter starts", func() bool {
						return p.engine.count(t, "SELECT count(*) FROM AUD_TASK_ATTEMPTS WHERE STATUS = 'RUNNING'") == 2
					})
				} else {
					p.waitsForFile(t)
				}
				if waiter.over() {
					t.Fatalf("it does not wait: %s", waiter)
				}
				holder.kill()
				killed := time.Now()
				writes := p.writes(t, waiter.succeed())
				t.Logf("the waiter had done its three tasks %s after the holder was killed", time.Since(killed).Round(time.Millisecond))
				writes = append(writes, p.writes(t, p.contend(t, "", "A").succeed())...)
				c.checkSerial(t, p, writes)
			})
		}
	})
}

// write is what one task did to the target, from the first statement after it got the lock to the record of its end.
type write struct {
	taskRunID                int64
	began, ended             time.Time
	inserted, updated, total int64
}

// writes are those of a run, by its document and the logs of the attempts that succeeded.
func (p project) writes(t *testing.T, document string) []write {
	t.Helper()
	var doc struct {
		Pipeline string `json:"pipeline"`
		RunID    int64  `json:"pipeline_run_id"`
		Tasks    []struct {
			Task      string    `json:"task"`
			TaskRunID int64     `json:"task_run_id"`
			Attempts  int       `json:"attempts"`
			EndedAt   time.Time `json:"ended_at"`
			Inserted  int64     `json:"insert_count"`
			Updated   int64     `json:"update_count"`
			Total     int64     `json:"target_count"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		t.Fatal(err)
	}
	var all []write
	for _, task := range doc.Tasks {
		log := filepath.Join(p.dir, "logs", doc.Pipeline, fmt.Sprintf("run-%d", doc.RunID), fmt.Sprintf("%s.attempt-%d.log", task.Task, task.Attempts))
		all = append(all, write{task.TaskRunID, firstStatement(t, log), task.EndedAt, task.Inserted, task.Updated, task.Total})
	}
	return all
}

func firstStatement(t *testing.T, log string) time.Time {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct {
			At  time.Time `json:"at"`
			SQL string    `json:"sql"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", log, err)
		}
		if line.SQL != "" {
			return line.At
		}
	}
	t.Fatalf("%s has no statement", log)
	return time.Time{}
}

// checkSerial compares the target with what it is after the same writes one after the other: none began before the one
// before it was recorded, each found what that had left, and the rows are those of a reference that is executed here.
func (c contest) checkSerial(t *testing.T, p project, writes []write) {
	t.Helper()
	slices.SortFunc(writes, func(a, b write) int { return a.began.Compare(b.began) })
	const each = 10
	total, updated := int64(each), int64(0)
	if c.name == "merges" {
		updated = each
	}
	var want []string
	for i, w := range writes {
		if i > 0 && w.began.Before(writes[i-1].ended) {
			t.Errorf("task run %d began at %s, before task run %d ended at %s", w.taskRunID, w.began, writes[i-1].taskRunID, writes[i-1].ended)
		}
		total += each
		same(t, fmt.Sprintf("inserted, updated and total of write %d", i+1), [3]int64{each, updated, total}, [3]int64{w.inserted, w.updated, w.total})
		active, stamp := "Y", w.taskRunID // of an SCD2 version, and who wrote it last
		if c.name == "merges" && i < len(writes)-1 {
			active, stamp = "N", writes[i+1].taskRunID
		}
		for id := range each {
			want = append(want, fmt.Sprintf("%d by %d %s %d", id, w.taskRunID, active, stamp))
		}
	}
	slices.Sort(want)
	activeFlag := "active_flag"
	if c.name != "merges" {
		activeFlag = "'Y'"
	}
	p.warehouse.use(t, func(db database) {
		got := db.texts(t, "SELECT id || ' ' || name || ' ' || "+activeFlag+" || ' ' || task_run_id FROM t.target WHERE name LIKE 'by %'")
		slices.Sort(got)
		same(t, "the rows", want, got)
		if n := db.count(t, "SELECT count(*) FROM t.target"); int64(n) != total {
			t.Errorf("the target has %d rows, want %d", n, total)
		}
	})
}
