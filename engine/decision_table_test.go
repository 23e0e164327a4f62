package engine

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

// decisionTable is a table of docs/reference/decisions.md: its head, then its rows.
type decisionTable [][]string

func decisionTables(t *testing.T) []decisionTable {
	t.Helper()
	text, err := os.ReadFile("../docs/reference/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	var tables []decisionTable
	inTable := false
	for _, line := range strings.Split(string(text), "\n") {
		isRow := strings.HasPrefix(line, "|")
		if isRow && !inTable {
			tables = append(tables, nil)
		}
		if inTable = isRow; !isRow || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		last := &tables[len(tables)-1]
		*last = append(*last, cells)
	}
	if len(tables) != 5 {
		t.Fatalf("docs/reference/decisions.md has %d tables, want 5", len(tables))
	}
	return tables
}

// check asks for every cell behind the columns that name its row.
func (d decisionTable) check(t *testing.T, names int, ask func(row []string, column string) string) {
	t.Helper()
	for _, row := range d[1:] {
		for i, want := range row[names:] {
			column := d[0][names+i]
			if got := ask(row[:names], column); got != want {
				t.Errorf("%s, %s: the page says %q, etl-craft %q", strings.Join(row[:names], " and "), column, want, got)
			}
		}
	}
}

// TestDecisionTable holds docs/reference/decisions.md against what is decided.
func TestDecisionTable(t *testing.T) {
	tables := decisionTables(t)
	t.Run("one dependency", func(t *testing.T) {
		tables[0].check(t, 1, func(row []string, on string) string {
			return decided([]dependency{{on, stateNamed(t, row[0])}}, "ALL", 0, false)
		})
	})
	// Every dependency of the first table, by what it is worth.
	worth := map[string][]dependency{}
	for _, row := range tables[0][1:] {
		for i, cell := range row[1:] {
			name := map[string]string{"runs": "holds", "waits": "open", store.SkipCondition: "unmet", store.SkipUpstream: "failed"}[cell]
			worth[name] = append(worth[name], dependency{tables[0][0][1+i], stateNamed(t, row[0])})
		}
	}
	t.Run("two dependencies", func(t *testing.T) {
		tables[1].check(t, 2, func(row []string, condition string) string {
			var answers []string
			for _, one := range worth[row[0]] {
				for _, other := range worth[row[1]] {
					answers = append(answers, decided([]dependency{one, other}, condition, 0, false), decided([]dependency{other, one}, condition, 0, false))
				}
			}
			return all(answers)
		})
	})
	t.Run("a gate", func(t *testing.T) {
		tables[2].check(t, 2, func(row []string, condition string) string {
			pass := 0
			if row[1] == "passes" {
				pass = 1
			}
			var answers []string
			for _, own := range worth[row[0]] {
				answers = append(answers, decided([]dependency{own}, condition, pass, true))
			}
			return all(answers)
		})
	})
	t.Run("upstream run", func(t *testing.T) { tables[3].checkGates(t, "PIPELINE") })
	t.Run("upstream task", func(t *testing.T) { tables[4].checkGates(t, "TASK") })
}

// all is the one answer that all have, or every different one.
func all(answers []string) string {
	slices.Sort(answers)
	return strings.Join(slices.Compact(answers), " or ")
}

type dependency struct {
	on string
	up state
}

// stateNamed reads "SUCCESS, with rows" and "SKIPPED, GATE_REFUSED".
func stateNamed(t *testing.T, name string) state {
	t.Helper()
	status, more, _ := strings.Cut(name, ", ")
	s := state{status: status}
	switch more {
	case "with rows":
		s.written = 3
	case "no rows", "":
	default:
		s.reason = more
	}
	return s
}

// decided is what becomes of a task with these dependencies: runs, waits, or why it is skipped. With a gate it has one on
// another pipeline's task too, of which pass hold.
func decided(ups []dependency, condition string, pass int, gate bool) string {
	task := store.Task{ID: 100, Code: "t", PipelineID: 1, RunCondition: condition}
	switch condition {
	case "1":
		task.RunCondition, task.ConditionCount = "N", 1
	case "2":
		task.RunCondition, task.ConditionCount = "N", 2
	}
	states := map[int64]state{task.ID: {status: store.Pending}}
	var tasks []store.Task
	for i, up := range ups {
		id := int64(i + 1)
		tasks = append(tasks, store.Task{ID: id, PipelineID: 1})
		states[id] = up.up
		task.DependsOn = append(task.DependsOn, store.TaskEdge{PipelineID: 1, TaskID: id, Type: up.on})
	}
	if gate {
		task.DependsOn = append(task.DependsOn, store.TaskEdge{PipelineID: 2, TaskID: 50, Type: store.OnSuccess})
	}
	f := newFlow(append(tasks, task), states)
	d := f.decide()
	if slices.ContainsFunc(d.gated, func(g *store.Task) bool { return g.ID == task.ID }) {
		f.judge(task.ID, pass)
		more := f.decide()
		d.ready, d.skips = append(d.ready, more.ready...), append(d.skips, more.skips...)
	}
	if slices.ContainsFunc(d.ready, func(r *store.Task) bool { return r.ID == task.ID }) {
		return "runs"
	}
	for _, s := range d.skips {
		if s.task.ID == task.ID {
			return s.reason
		}
	}
	return "waits"
}

// checkGates puts the upstream into the state that a row names, and looks at a gate of each type.
func (d decisionTable) checkGates(t *testing.T, of string) {
	b := newBench(t)
	b.applyTo("RAW", "", "x:")
	raw := b.mustRun(RunRequest{Pipeline: "RAW"})
	set := func(statement string, args ...any) {
		t.Helper()
		if _, err := b.store.Backend().Writer.Exec(statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	d.check(t, 1, func(row []string, on string) string {
		name, backfill := strings.CutSuffix(row[0], " of a backfill")
		s := stateNamed(t, name)
		trigger := store.TriggerManual
		if backfill {
			trigger = store.TriggerBackfill
		}
		run, task := store.Failed, s.status
		var reason any
		if s.status == store.Skipped {
			reason = store.SkipCondition
		}
		g := store.Gate{TaskEdgeID: 1, UpstreamPipelineID: raw.PipelineID, UpstreamTaskID: raw.Tasks[0].TaskID, Type: on}
		if of == "PIPELINE" {
			run, task = s.status, store.Success
			g = store.Gate{PipelineEdgeID: 1, UpstreamPipelineID: raw.PipelineID, Type: on}
			set("UPDATE AUD_PIPELINES_RUN_LOG SET STATUS = $1, TRIGGER_KIND = $2, SKIP_REASON = $3, END_DATE = CASE WHEN $1 <> 'IN_PROGRESS' THEN '2026-09-01T00:00:00.000000Z' END", run, trigger, reason)
			reason = nil
		} else {
			set("UPDATE AUD_PIPELINES_RUN_LOG SET STATUS = $1", run)
		}
		set("UPDATE AUD_TASK_RUN_LOG SET STATUS = $1, SKIP_REASON = $2, ROWS_WRITTEN = $3", task, reason, s.written)
		u, err := b.store.LookUpstream(context.Background(), g)
		switch {
		case err != nil:
			t.Fatal(err)
		case u.Busy != 0:
			return "waits"
		case u.RunID != 0:
			return "passes"
		}
		return "refuses"
	})
}
