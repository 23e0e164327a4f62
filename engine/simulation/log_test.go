package simulation_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a row of SIM_LOG: one change of a state in the Engine DB.
type entry struct {
	tx               int
	kind             string
	id, runID, task  int64
	old, now, reason string
	owner            string
	n, m             int64
	hasN             bool
	date             string
}

func (w *world) readLog() []entry {
	var entries []entry
	for _, row := range w.db.ask("SELECT TX, KIND, ID, RUN_ID, TASK_ID, OLD, NEW, REASON, OWNER, N, M, DATE FROM SIM_LOG ORDER BY SEQ") {
		number := func(i int) int64 { n, _ := row[i].(int64); return n }
		text := func(i int) string { s, _ := row[i].(string); return s }
		_, hasN := row[9].(int64)
		entries = append(entries, entry{int(number(0)), text(1), number(2), number(3), number(4), text(5), text(6), text(7), text(8), number(9), number(10), hasN, text(11)})
	}
	return entries
}

// edge is a dependency, of a task or of a pipeline.
type edge struct {
	id             int64
	pipeline, task int64 // waited for; task is 0 for a pipeline's dependency
	on             string
	sameDate       bool
	repairs        bool
	otherPipeline  bool
}

// taskModel is a task as CFG_ rows declare it.
type taskModel struct {
	id, pipeline int64
	name, code   string
	need         int
	edges        []edge
	retries      int
	delay        float64 // seconds
	backoff      float64
}

func (w *world) readTasks() map[int64]*taskModel {
	tasks := map[int64]*taskModel{}
	conditions := map[int64]string{}
	for _, row := range w.db.ask(`SELECT t.TASK_ID, t.PIPELINE_ID, p.PIPELINE_CODE, t.TASK_CODE, COALESCE(t.RUN_CONDITION, 'ALL'), COALESCE(t.RUN_CONDITION_COUNT, 0)
FROM CFG_TASKS t JOIN CFG_PIPELINES p ON p.PIPELINE_ID = t.PIPELINE_ID`) {
		id := row[0].(int64)
		tasks[id] = &taskModel{id: id, pipeline: row[1].(int64), name: row[2].(string) + "." + row[3].(string), code: row[3].(string), need: int(row[5].(int64)),
			delay: 60, backoff: 2}
		conditions[id] = row[4].(string)
	}
	for _, row := range w.db.ask(`SELECT TASK_DEPENDENCY_ID, TASK_ID, DEPENDS_ON_PIPELINE_ID, DEPENDS_ON_TASK_ID, DEPENDENCY_TYPE, MATCH, CONSUME_REPAIRS, PIPELINE_ID
FROM CFG_TASK_DEPENDENCY ORDER BY TASK_DEPENDENCY_ID`) {
		t := tasks[row[1].(int64)]
		t.edges = append(t.edges, edge{id: row[0].(int64), pipeline: row[2].(int64), task: row[3].(int64), on: row[4].(string),
			sameDate: row[5] == "SAME_DATE", repairs: row[6] == "Y", otherPipeline: row[2] != row[7]})
	}
	for _, row := range w.db.ask("SELECT TASK_ID, PARAMETER_NAME, PARAMETER_VALUE FROM CFG_TASK_PARAMETERS") {
		t, value := tasks[row[0].(int64)], row[2].(string)
		switch row[1] {
		case "RETRIES":
			t.retries, _ = strconv.Atoi(value)
		case "RETRY_DELAY_SECONDS":
			t.delay, _ = strconv.ParseFloat(value, 64)
		case "RETRY_BACKOFF":
			t.backoff, _ = strconv.ParseFloat(value, 64)
		}
	}
	for id, t := range tasks {
		switch conditions[id] {
		case "ALL":
			t.need = len(t.edges)
		case "ANY":
			t.need = min(1, len(t.edges))
		}
	}
	return tasks
}

func (w *world) readPipelineEdges() map[int64][]edge {
	edges := map[int64][]edge{}
	for _, row := range w.db.ask(`SELECT PIPELINE_DEPENDENCY_ID, PIPELINE_ID, DEPENDS_ON_PIPELINE_ID, DEPENDENCY_TYPE, MATCH, CONSUME_REPAIRS FROM CFG_PIPELINE_DEPENDENCY`) {
		id := row[1].(int64)
		edges[id] = append(edges[id], edge{id: row[0].(int64), pipeline: row[2].(int64), on: row[3].(string), sameDate: row[4] == "SAME_DATE",
			repairs: row[5] == "Y", otherPipeline: true})
	}
	return edges
}

// line is how a trace shows an entry. Owners are named by their processes, whose ids differ each time.
func (j *judge) line(e entry) string {
	var b strings.Builder
	name := fmt.Sprint(e.kind, " ", e.id)
	if t := j.tasks[e.task]; t != nil && (e.kind == "task" || e.kind == "asked") {
		name = fmt.Sprintf("%s %s of run %d", e.kind, t.name, e.runID)
	} else if e.runID != 0 {
		name += fmt.Sprint(" of ", e.runID)
	}
	fmt.Fprintf(&b, "%s: %s", name, strings.TrimPrefix(e.old+"→"+e.now, "→"))
	if e.reason != "" {
		b.WriteString(" " + e.reason)
	}
	switch owner := j.owners[e.owner]; {
	case e.owner == "":
	case owner != nil:
		b.WriteString(" by " + owner.name)
	default:
		b.WriteString(" " + e.owner)
	}
	if e.hasN || e.m != 0 {
		fmt.Fprintf(&b, " n=%d m=%d", e.n, e.m)
	}
	if e.date != "" {
		b.WriteString(" " + e.date)
	}
	return b.String()
}

func (j *judge) write(at time.Time, by *process, text string) {
	fmt.Fprintf(&j.trace, "%14s %-5s %s\n", at.Sub(j.w.began), by.name, text)
}

// breaks notes that a rule was broken at this moment.
func (j *judge) breaks(format string, args ...any) {
	text := fmt.Sprintf("%s by %s: %s", j.at.Sub(j.w.began), j.by.name, fmt.Sprintf(format, args...))
	j.broken = append(j.broken, text)
	fmt.Fprintf(&j.trace, "*** %s\n", text)
}

func ended(status string) bool {
	return slices.Contains([]string{"SUCCESS", "FAILED", "SKIPPED", "CANCELLED"}, status)
}
