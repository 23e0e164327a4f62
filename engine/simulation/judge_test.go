package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// judge reads what happened in a case from its log and holds it against the rules, without any code of the engine.
type judge struct {
	w             *world
	trace         strings.Builder
	broken        []string
	tasks         map[int64]*taskModel
	pipelineEdges map[int64][]edge // by pipeline
	owners        map[string]*process

	at       time.Time // of the transaction that is looked at
	by       *process
	runs     map[int64]*run
	taskRuns map[int64]*taskRun
	attempts map[int64]*attempt
	used     map[edgeID][]usage
	seen     map[seenBy]choice // what a process saw at a gate last
	paused   map[int64]bool
	busy     map[*process]int // tasks that execute
}

type edgeID struct {
	kind string // pipeline or task
	id   int64
}

type seenBy struct {
	by   *process
	edge edgeID
}

// choice is an upstream run at a revision; 0 is none.
type choice struct{ run, revision int64 }

type usage struct {
	choice
	by int64 // run
}

type run struct {
	id, pipeline   int64
	status, reason string
	date, trigger  string
	owner          string
	revision       int64
	repair         bool
	markedByHand   bool               // its status, by a person
	tasks          map[int64]*taskRun // by task
	decisions      map[int64]entry    // of its pipeline's dependencies
	asked          bool               // a person asked for something in it
}

type taskRun struct {
	id      int64
	run     *run
	model   *taskModel
	state   taskState
	history []pastState
	code    string // of its error
	attempt []*attempt
	gates   map[int64]entry // last decision by dependency
	tries   int             // failed ones since somebody decided to try
	due     string          // of the retry
}

type taskState struct {
	status, reason string
	rows           int64
}

type pastState struct {
	at time.Time
	taskState
}

type attempt struct {
	id     int64
	number int64
	of     *taskRun
	status string
	phase  string
	owner  *process
}

func newJudge(w *world) *judge {
	return &judge{w: w, tasks: w.readTasks(), pipelineEdges: w.readPipelineEdges(), owners: map[string]*process{}, runs: map[int64]*run{},
		taskRuns: map[int64]*taskRun{}, attempts: map[int64]*attempt{}, used: map[edgeID][]usage{}, seen: map[seenBy]choice{},
		paused: map[int64]bool{}, busy: map[*process]int{}}
}

// judge goes through the log, one transaction after the other.
func (j *judge) judge() (string, []string) {
	entries, events, looks := j.w.readLog(), j.w.events, j.w.db.looks
	tell := func(tx int) {
		for len(events) > 0 && events[0].tx <= tx {
			j.event(events[0])
			events = events[1:]
		}
	}
	tell(-1)
	for tx, info := range j.w.db.txs {
		tell(tx - 1)
		j.at, j.by = info.at, info.by
		if *everythingFlag {
			j.write(info.at, info.by, "· "+strings.Join(strings.Fields(info.sql), " "))
		}
		for len(looks) > 0 && looks[0].tx <= tx {
			j.look(looks[0])
			looks = looks[1:]
		}
		var rows []entry
		for len(entries) > 0 && entries[0].tx <= tx {
			rows = append(rows, entries[0])
			entries = entries[1:]
		}
		if len(rows) > 0 {
			j.transaction(rows)
		}
	}
	tell(len(j.w.db.txs))
	j.finally()
	return j.trace.String(), j.broken
}

// event judges what handlers did.
func (j *judge) event(e event) {
	j.at, j.by = e.at, e.by
	if e.x == nil {
		if strings.HasPrefix(e.what, "dies") {
			j.busy[e.by] = 0
		}
		j.write(e.at, e.by, e.what)
		return
	}
	a := j.attempts[e.x.attempt]
	j.write(e.at, e.by, fmt.Sprintf("%s attempt %d of %s in run %d", e.what, a.number, a.of.model.name, a.of.run.id))
	switch e.what {
	case "executes":
		j.busy[e.by]++
		if limit := j.w.config.Orchestration.MaxParallelTasks; j.busy[e.by] > limit {
			j.breaks("%d tasks execute, and %d may", j.busy[e.by], limit)
		}
		if a.status != "RUNNING" && !e.by.fellBefore(e.at) {
			j.breaks("attempt %d of %s executes and is %s", a.number, a.of.model.name, a.status)
		}
		for _, other := range e.with {
			if b := j.attempts[other.attempt]; b.status == "RUNNING" || !other.p.fellBefore(e.at) {
				j.breaks("%s of run %d is executed by %s and %s at once", a.of.model.name, a.of.run.id, e.by.name, other.p.name)
			}
		}
	case "ends":
		j.busy[e.by]--
	case "commits":
		if a.status != "RUNNING" || a.phase != "COMMITTING" {
			j.breaks("attempt %d of %s commits and is %s, %s", a.number, a.of.model.name, a.status, a.phase)
		}
	}
}

// transaction judges what a transaction changed, which has happened as one.
func (j *judge) transaction(rows []entry) {
	for _, e := range rows {
		if e.owner != "" && (e.kind == "run" || e.kind == "attempt" && e.old == "") && j.owners[e.owner] == nil {
			j.owners[e.owner] = j.by
		}
		j.write(j.at, j.by, j.line(e))
	}
	t := transactionRows{rows}
	for _, e := range rows {
		if e.kind == "attempt" && e.old == "" {
			j.attemptStarts(e)
		}
		if e.kind == "gate" {
			j.gateIsDecided(e)
		}
	}
	for _, e := range rows {
		switch e.kind {
		case "run":
			j.runChanges(e, t)
		case "task":
			j.taskChanges(e, t)
		case "attempt":
			j.attemptChanges(e, t)
		case "gate":
			j.keepDecision(e)
		case "used":
			j.isUsed(e, t)
		case "asked":
			j.isAsked(e)
		case "pause":
			j.paused[e.id] = e.now == "paused"
		}
	}
	for _, e := range rows {
		if e.kind == "run" && e.old != "" && !ended(e.old) && ended(e.now) {
			j.runEnds(j.runs[e.id], t)
		}
		if e.kind == "task" && e.now == "SKIPPED" && e.old == "PENDING" && e.reason != "OPERATOR" {
			j.taskIsSkipped(e)
		}
		if e.kind == "attempt" && e.now == "SUCCESS" && e.old == "RUNNING" {
			j.taskUsesUp(j.attempts[e.id])
		}
	}
}

// transactionRows are the changes of one transaction.
type transactionRows struct{ rows []entry }

func (t transactionRows) has(is func(entry) bool) bool { return slices.ContainsFunc(t.rows, is) }

// asked reports whether a person asked for something about a run, or a task of it, in this transaction.
func (t transactionRows) asked(run, task int64, actions ...string) bool {
	return t.has(func(e entry) bool {
		return e.kind == "asked" && e.runID == run && e.task == task && slices.Contains(actions, e.reason)
	})
}

func (j *judge) runChanges(e entry, t transactionRows) {
	r := j.runs[e.id]
	if r == nil {
		j.runs[e.id] = &run{id: e.id, pipeline: e.task, status: e.now, owner: e.owner, date: e.date, trigger: e.reason, revision: 1,
			tasks: map[int64]*taskRun{}, decisions: map[int64]entry{}}
		for _, other := range j.runs {
			if other.pipeline == e.task && other.id != e.id && other.status == "IN_PROGRESS" {
				j.breaks("runs %d and %d of a pipeline are in progress", other.id, e.id)
			}
		}
		if e.reason != "STAND_IN" {
			j.runIsAdmitted(j.runs[e.id], t)
		}
		return
	}
	if r.status == "CANCELLED" && e.now != r.status {
		j.breaks("cancelled run %d is %s", r.id, e.now)
	}
	if ended(r.status) && !ended(e.now) && !t.asked(r.id, 0, "REOPEN") {
		j.breaks("ended run %d is %s again, and nobody asked for it", r.id, e.now)
	}
	if ended(e.now) && e.owner != "" {
		j.breaks("ended run %d has an owner", r.id)
	}
	if r.owner != "" && e.owner != "" && e.owner != r.owner && !j.owners[r.owner].goneBefore(j.at) {
		j.breaks("run %d is taken from %s, which lives", r.id, j.owners[r.owner].name)
	}
	want := r.revision
	byHand := t.asked(r.id, 0, "MARK")
	if e.now == "SUCCESS" && (!ended(r.status) && (r.repair || e.m == 1) || ended(r.status) && byHand) {
		want++
	}
	if e.n != want {
		j.breaks("revision of run %d is %d, want %d", r.id, e.n, want)
	}
	if ended(e.now) && (byHand || !ended(r.status)) {
		r.markedByHand = byHand
	}
	r.status, r.reason, r.owner, r.revision, r.repair = e.now, e.reason, e.owner, e.n, e.m == 1
}

func (j *judge) taskChanges(e entry, t transactionRows) {
	x := j.taskRuns[e.id]
	if x == nil {
		r := j.runs[e.runID]
		x = &taskRun{id: e.id, run: r, model: j.tasks[e.task], gates: map[int64]entry{}}
		j.taskRuns[e.id], r.tasks[e.task] = x, x
	}
	if ended(x.run.status) && x.run.status != "CANCELLED" && e.old != "" && !t.asked(e.runID, 0, "MARK", "SKIP") {
		j.breaks("%s of run %d, which is %s, becomes %s", x.model.name, x.run.id, x.run.status, e.now)
	}
	attemptEnds := t.has(func(a entry) bool {
		return a.kind == "attempt" && a.runID == e.id && a.old == "RUNNING" && a.now != "RUNNING"
	})
	changed := e.old != e.now
	switch {
	case !changed || e.old == "":
	case e.old == "IN_PROGRESS" && !attemptEnds:
		j.breaks("%s of run %d is %s, and its attempt runs", x.model.name, x.run.id, e.now)
	case e.now == "PENDING" && !attemptEnds:
		failed := e.old == "FAILED" || e.old == "SKIPPED" && x.state.reason == "UPSTREAM_FAILED"
		asked := t.asked(e.runID, e.task, "RERUN", "RESET", "IGNORE_DEPENDENCIES") || t.asked(e.runID, 0, "RESET")
		if !asked && (!failed || j.by.command.run == nil) {
			j.breaks("%s of run %d was %s and is to run again, and nobody asked for it", x.model.name, x.run.id, e.old)
		}
		x.tries, x.due = 0, ""
		x.run.asked = true
	case e.now == "IN_PROGRESS" && e.old != "PENDING" && e.old != "FAILED":
		j.breaks("%s of run %d was %s and runs again", x.model.name, x.run.id, e.old)
	case e.now == "IN_PROGRESS" && e.old == "FAILED":
		x.tries, x.due = 0, ""
		x.run.asked = true
	case (e.now == "SUCCESS" || e.now == "FAILED") && !attemptEnds && !t.asked(e.runID, e.task, "MARK"):
		j.breaks("%s of run %d is %s, and nobody asked for it", x.model.name, x.run.id, e.now)
	case e.now == "SKIPPED" && e.reason == "":
		j.breaks("%s of run %d is SKIPPED for no reason", x.model.name, x.run.id)
	}
	x.state = taskState{e.now, e.reason, e.n}
	x.history = append(x.history, pastState{j.at, x.state})
	x.code = e.owner
}

// isAsked takes note that a person asked for something in a run. A task that shall run again does so at once.
func (j *judge) isAsked(e entry) {
	r := j.runs[e.runID]
	r.asked = true
	if x := r.tasks[e.task]; x != nil && slices.Contains([]string{"RERUN", "RESET", "IGNORE_DEPENDENCIES"}, e.reason) {
		x.tries, x.due = 0, ""
	}
}

func (j *judge) attemptStarts(e entry) {
	x := j.taskRuns[e.runID]
	name := fmt.Sprintf("attempt %d of %s in run %d", e.n, x.model.name, x.run.id)
	if x.run.status != "IN_PROGRESS" {
		j.breaks("%s starts, and the run is %s", name, x.run.status)
	}
	if j.paused[x.run.pipeline] {
		j.breaks("%s starts, and the pipeline is paused", name)
	}
	if e.n != int64(len(x.attempt)+1) {
		j.breaks("%s is the %d.", name, len(x.attempt)+1)
	}
	if len(x.attempt) > 0 && x.attempt[len(x.attempt)-1].status == "RUNNING" {
		j.breaks("%s starts beside another", name)
	}
	c := j.by.command.run
	if c == nil {
		j.breaks("%s is started by an operator's command", name)
		return
	}
	if (c.Task == "" || c.WithDownstream) && x.run.owner != e.owner {
		j.breaks("%s starts, and the run belongs to another", name)
	}
	if now := j.at.UTC().Format("2006-01-02T15:04:05.000"); x.due != "" && now < x.due[:len(now)] {
		j.breaks("%s starts before its time, %s", name, x.due)
	}
	if c.Task == x.model.code && (c.Force || c.IgnoreDependencies) {
		return
	}
	if !j.mayRun(x) {
		j.breaks("%s starts before its dependencies hold: %s", name, j.explain(x))
	}
}

func (j *judge) attemptChanges(e entry, t transactionRows) {
	a := j.attempts[e.id]
	if a == nil {
		x := j.taskRuns[e.runID]
		a = &attempt{id: e.id, number: e.n, of: x, status: e.now, phase: "STARTED", owner: j.by}
		j.attempts[e.id] = a
		x.attempt = append(x.attempt, a)
		return
	}
	if a.status != "RUNNING" && a.status != e.now {
		j.breaks("attempt %d of %s was %s and is %s", a.number, a.of.model.name, a.status, e.now)
	}
	if a.status == "RUNNING" && e.now == "LOST" && !a.owner.goneBefore(j.at) {
		j.breaks("attempt %d of %s is LOST, and %s lives", a.number, a.of.model.name, a.owner.name)
	}
	if a.status == "RUNNING" && (e.now == "FAILED" || e.now == "TIMED_OUT") {
		j.attemptFails(a.of, e)
	}
	a.status, a.phase = e.now, e.reason
}

// attemptFails judges what follows from a failed attempt: another one, in time, or none.
func (j *judge) attemptFails(x *taskRun, e entry) {
	x.tries++
	x.due = e.date
	if x.tries > 1+x.model.retries {
		j.breaks("%s of run %d was tried %d times, with %d retries", x.model.name, x.run.id, x.tries, x.model.retries)
	}
	if retryable := e.task == 1; x.run.asked || x.run.status != "IN_PROGRESS" || !retryable || x.tries > x.model.retries {
		return
	}
	due, err := time.Parse("2006-01-02T15:04:05.000000Z", x.due)
	want := time.Duration(x.model.delay * math.Pow(x.model.backoff, float64(x.tries-1)) * float64(time.Second))
	if got := due.Sub(j.at); err != nil || x.state.status != "PENDING" || (got-want).Abs() > time.Second {
		j.breaks("%s of run %d is %s and due in %s (%v), want PENDING and %s", x.model.name, x.run.id, x.state.status, got, err, want)
	}
}

// runEnds judges a run that has just ended.
func (j *judge) runEnds(r *run, t transactionRows) {
	if t.asked(r.id, 0, "MARK") || r.trigger == "STAND_IN" {
		return
	}
	var states []taskState
	for _, x := range r.tasks {
		states = append(states, x.state)
		if !ended(x.state.status) && !(r.status == "CANCELLED" && x.state.status == "IN_PROGRESS") {
			j.breaks("run %d ends %s, and %s is %s", r.id, r.status, x.model.name, x.state.status)
		}
	}
	if r.status == "CANCELLED" {
		if !t.asked(r.id, 0, "CANCEL") {
			j.breaks("run %d is CANCELLED, and nobody asked for it", r.id)
		}
		return
	}
	if status, reason := outcomeOf(states); status != r.status || reason != r.reason {
		j.breaks("run %d ends %s %s, want %s %s", r.id, r.status, r.reason, status, reason)
	}
	for _, x := range r.tasks {
		if x.state.status != "SKIPPED" || x.state.reason == "OPERATOR" || j.isUsedUp(x) {
			continue
		}
		want := j.skipOf(x)
		if want == "" || want != x.state.reason && (!r.asked || x.state.reason == "UPSTREAM_FAILED") {
			j.breaks("run %d ends with %s SKIPPED/%s, but: %s", r.id, x.model.name, x.state.reason, j.explain(x))
		}
	}
	if r.status == "SUCCESS" {
		for _, d := range r.decisions {
			if d.now == "SATISFIED" && !j.covered(edgeID{"pipeline", d.id}, choice{d.n, d.m}) {
				j.breaks("run %d ended SUCCESS and has not used up run %d", r.id, d.n)
			}
		}
	}
}

// outcomeOf is how a run with these tasks ends.
func outcomeOf(states []taskState) (status, reason string) {
	skipped := map[string]bool{}
	succeeded := len(states) == 0
	for _, s := range states {
		switch s.status {
		case "SUCCESS":
			succeeded = true
		case "SKIPPED":
			skipped[s.reason] = true
		default:
			return "FAILED", ""
		}
	}
	switch {
	case succeeded:
		return "SUCCESS", ""
	case skipped["UPSTREAM_FAILED"]:
		return "SKIPPED", "UPSTREAM_FAILED"
	case len(skipped) > 1:
		return "SKIPPED", "CONDITION_UNMET"
	}
	for reason = range skipped {
	}
	return "SKIPPED", reason
}

// finally judges what is left when everybody has gone.
func (j *judge) finally() {
	j.at = time.Now()
	j.by = &process{name: "nobody"}
	for _, x := range j.taskRuns {
		for _, a := range x.attempt {
			if a.status == "RUNNING" {
				j.breaks("attempt %d of %s in run %d has no end", a.number, x.model.name, x.run.id)
			}
		}
		if ended(x.run.status) && !x.run.markedByHand && !ended(x.state.status) {
			j.breaks("%s of run %d, which is %s, is %s", x.model.name, x.run.id, x.run.status, x.state.status)
		}
		if x.state.status == "FAILED" && x.code == "" {
			j.breaks("%s of run %d is FAILED for no reason", x.model.name, x.run.id)
		}
	}
	for _, row := range j.w.db.ask("SELECT ATTEMPT_ID, COMMITTED FROM AUD_TASK_ATTEMPTS WHERE COMMITTED IS NOT NULL") {
		if committed := j.w.committed[row[0].(int64)]; committed != (row[1] == "Y") {
			j.breaks("attempt %d committed: %t, recorded as %v", row[0], committed, row[1])
		}
	}
	for _, row := range j.w.db.ask(`SELECT r.PIPELINE_RUN_ID FROM AUD_GATE_WAITS w
JOIN AUD_PIPELINES_RUN_LOG r ON r.PIPELINE_RUN_ID = w.PIPELINE_RUN_ID WHERE w.NEXT_CHECK_AT IS NOT NULL AND r.STATUS <> 'IN_PROGRESS'`) {
		j.breaks("run %d has ended and waits at a gate", row[0])
	}
	outcomes := map[string]int64{}
	for _, row := range j.w.db.ask("SELECT ACTOR, COUNT(*) FROM AUD_ACTIONS WHERE OUTCOME IS NULL GROUP BY ACTOR") {
		outcomes[row[0].(string)] = row[1].(int64)
	}
	for _, p := range j.w.processes {
		j.by = p
		code := p.result()
		if !p.isDead() && outcomes[p.name] > 0 {
			j.breaks("its command has no outcome, and it ended %s", code)
		}
		if errors.Is(p.err, context.Canceled) && p.cancelled {
			continue // the command line says interrupted
		}
		if code == "INTERNAL" || code == "STALE_ATTEMPT" && !p.fellBefore(j.at) {
			j.breaks("ended %s: %v", code, p.err)
		}
	}
}
