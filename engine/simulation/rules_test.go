package simulation_test

import (
	"fmt"
	"strings"
	"time"
)

// satisfies reads the table of dependency types: which end of a task, or of a run, satisfies which type.
func satisfies(on, status string, hasRows bool) bool {
	switch on {
	case "SUCCESS":
		return status == "SUCCESS"
	case "FAILURE":
		return status == "FAILED"
	case "HAS_DATA":
		return status == "SUCCESS" && hasRows
	}
	return status == "SUCCESS" || status == "FAILED" || status == "SKIPPED"
}

// tally counts a task's dependencies by what they are worth.
type tally struct {
	held, open  int
	failure     bool // one is lost and goes back to a failure
	gates, pass int  // on other pipelines, and those that were let pass
	asked       bool // the gates of this task were decided
}

// count looks at a task's dependencies as they stand.
func (j *judge) count(x *taskRun) tally {
	var c tally
	for _, e := range x.model.edges {
		if e.otherPipeline {
			c.gates++
			d, decided := x.gates[e.id]
			c.asked = c.asked || decided
			if d.now == "SATISFIED" || d.now == "BYPASSED" {
				c.pass++
			}
			continue
		}
		s := x.run.tasks[e.task].state
		switch {
		case !ended(s.status):
			c.open++
		case satisfies(e.on, s.status, s.rows > 0):
			c.held++
		case s.status == "FAILED" || s.status == "CANCELLED" || s.reason == "UPSTREAM_FAILED":
			c.failure = true
		}
	}
	if j.usedInRun(x) {
		c.pass = c.gates
	}
	return c
}

func (x *taskRun) stateAt(at time.Time) taskState {
	s := taskState{status: "PENDING"}
	for _, past := range x.history {
		if past.at.After(at) {
			break
		}
		s = past.taskState
	}
	return s
}

// stale is how old a process's knowledge of its run may be when a person changes tasks of it: it looks every second, and
// each of four ways to the Engine DB takes its time.
const stale = time.Second + 4*longestWay

// mayRun reports whether a task's dependencies hold. Each may be judged by what the process that starts it could have seen
// last: what a person changes reaches it when it looks next, while it sees at once what its own tasks come to.
func (j *judge) mayRun(x *taskRun) bool {
	c := j.count(x)
	if c.held+c.pass >= x.model.need {
		return true
	}
	since := j.at.Add(-stale)
	for _, s := range j.by.frozen {
		if s.to.After(since) && s.from.Before(j.at) {
			since = since.Add(-s.to.Sub(s.from))
		}
	}
	held := c.pass
	for _, e := range x.model.edges {
		if !e.otherPipeline && x.run.tasks[e.task].satisfiedSince(e.on, since) {
			held++
		}
	}
	return held >= x.model.need
}

// satisfiedSince reports whether the task's state satisfied a dependency at any time since then.
func (x *taskRun) satisfiedSince(on string, since time.Time) bool {
	s := x.stateAt(since)
	if satisfies(on, s.status, s.rows > 0) {
		return true
	}
	for _, past := range x.history {
		if past.at.After(since) && satisfies(on, past.status, past.rows > 0) {
			return true
		}
	}
	return false
}

// skipOf is why a task cannot run any more, "" when it can.
func (j *judge) skipOf(x *taskRun) string {
	c := j.count(x)
	possible := c.held + c.gates
	switch {
	case c.held >= x.model.need || c.open > 0:
		return ""
	case possible >= x.model.need && (!c.asked || c.held+c.pass >= x.model.need):
		return ""
	case c.failure:
		return "UPSTREAM_FAILED"
	case possible >= x.model.need:
		return "GATE_REFUSED"
	}
	return "CONDITION_UNMET"
}

// taskIsSkipped judges a skip by the states after its transaction, because others that it follows from are in it.
func (j *judge) taskIsSkipped(e entry) {
	x := j.taskRuns[e.id]
	if c := j.by.command.run; c != nil && (c.Task == "" || c.WithDownstream) && j.owners[x.run.owner] != j.by && !ended(x.run.status) {
		j.breaks("%s is skipped in run %d, which belongs to another", x.model.name, x.run.id)
	}
	if want := j.skipOf(x); want != e.reason {
		j.breaks("%s of run %d is SKIPPED/%s, but: %s", x.model.name, x.run.id, e.reason, j.explain(x))
	}
}

// explain says what a task's dependencies are worth.
func (j *judge) explain(x *taskRun) string {
	var parts []string
	for _, e := range x.model.edges {
		if e.otherPipeline {
			d, ok := x.gates[e.id]
			if !ok {
				d.now = "not asked"
			}
			parts = append(parts, fmt.Sprintf("%s on %s (gate) %s", j.tasks[e.task].name, e.on, d.now))
			continue
		}
		s := x.run.tasks[e.task].state
		parts = append(parts, fmt.Sprintf("%s on %s is %s %s rows=%d", j.tasks[e.task].name, e.on, s.status, s.reason, s.rows))
	}
	return fmt.Sprintf("needs %d of (%s)", x.model.need, strings.Join(parts, "; "))
}

// look computes which upstream run a gate must choose at this moment.
func (j *judge) look(l look) {
	key := seenBy{l.by, edgeID{"pipeline", l.pipelineEdge}}
	var e edge
	for _, edges := range j.pipelineEdges {
		for _, x := range edges {
			if x.id == l.pipelineEdge {
				e = x
			}
		}
	}
	if l.taskEdge != 0 {
		key.edge = edgeID{"task", l.taskEdge}
		for _, t := range j.tasks {
			for _, x := range t.edges {
				if x.id == l.taskEdge {
					e = x
				}
			}
		}
	}
	j.seen[key] = j.choose(key.edge, e, l.date)
}

func (j *judge) choose(id edgeID, e edge, date string) choice {
	newest := map[string]int64{} // that was used up, by the date it had, "" where that does not matter
	of := func(date string) string {
		if e.sameDate {
			return date
		}
		return ""
	}
	for _, u := range j.used[id] {
		for _, r := range j.runs {
			if r.id == u.run {
				newest[of(r.date)] = max(newest[of(r.date)], u.run)
			}
		}
	}
	var best choice
	for _, r := range j.runs {
		if r.pipeline != e.pipeline || r.trigger == "BACKFILL" || !ended(r.status) || r.status == "CANCELLED" || r.id < best.run {
			continue
		}
		if e.sameDate && r.date != date {
			continue
		}
		status, rows := r.status, false
		if e.task != 0 {
			x := r.tasks[e.task]
			if x == nil {
				continue
			}
			status, rows = x.state.status, x.state.rows > 0
		} else {
			for _, x := range r.tasks {
				rows = rows || x.state.rows > 0
			}
		}
		if !satisfies(e.on, status, rows) {
			continue
		}
		counted := int64(1) // the revision that was used, or would have been
		for _, u := range j.used[id] {
			if u.run == r.id {
				counted = max(counted, u.revision)
			}
		}
		if r.id > newest[of(r.date)] || e.repairs && r.revision > counted {
			best = choice{r.id, r.revision}
		}
	}
	return best
}

// gateIsDecided judges a decision by what its process had seen.
func (j *judge) gateIsDecided(e entry) {
	id := edgeID{e.reason, e.id}
	c := j.by.command.run
	switch e.now {
	case "BYPASSED":
		if mode := j.w.config.Orchestration.DependencyGates; mode == "enforce" && !c.Force && !c.IgnoreDependencies && c.Backfill == "" && !j.backfill(e) {
			j.breaks("gate %d is not listened to", e.id)
		}
	case "SATISFIED", "UNSATISFIED":
		if j.backfill(e) {
			return
		}
		if saw := j.seen[seenBy{j.by, id}]; saw != (choice{e.n, e.m}) {
			j.breaks("gate %d chose run %d revision %d, want %d revision %d", e.id, e.n, e.m, saw.run, saw.revision)
		}
		if e.now == "SATISFIED" && j.covered(id, choice{e.n, e.m}) {
			j.breaks("gate %d chose run %d revision %d, which is used up", e.id, e.n, e.m)
		}
	}
}

func (j *judge) backfill(e entry) bool {
	r := j.runs[e.runID]
	return r != nil && r.trigger == "BACKFILL"
}

func (j *judge) keepDecision(e entry) {
	switch {
	case e.runID == 0: // a refusal
	case e.task != 0:
		j.taskRuns[e.task].gates[e.id] = e
	default:
		j.runs[e.runID].decisions[e.id] = e
	}
}

// runIsAdmitted judges whether a new run was let in.
func (j *judge) runIsAdmitted(r *run, t transactionRows) {
	for _, e := range j.pipelineEdges[r.pipeline] {
		passed := t.has(func(d entry) bool {
			return d.kind == "gate" && d.reason == "pipeline" && d.id == e.id && d.now != "UNSATISFIED"
		})
		if !passed {
			j.breaks("run %d is admitted, and gate %d is not open", r.id, e.id)
		}
	}
}

// covered reports whether an upstream run was used up at this revision, or at a later one.
func (j *judge) covered(id edgeID, c choice) bool {
	for _, u := range j.used[id] {
		if u.run == c.run && u.revision >= c.revision {
			return true
		}
	}
	return false
}

// isUsed judges a row that says that an upstream run was used up.
func (j *judge) isUsed(e entry, t transactionRows) {
	id, c := edgeID{e.reason, e.id}, choice{e.n, e.m}
	if j.covered(id, c) {
		j.breaks("run %d revision %d is used up twice by gate %d", e.n, e.m, e.id)
	}
	j.used[id] = append(j.used[id], usage{c, e.runID})
	r := j.runs[e.runID]
	if e.reason == "pipeline" {
		ends := t.has(func(x entry) bool { return x.kind == "run" && x.id == r.id && !ended(x.old) && x.now == "SUCCESS" })
		if d := r.decisions[e.id]; !ends || t.asked(r.id, 0, "MARK") || d.now != "SATISFIED" || (choice{d.n, d.m}) != c {
			j.breaks("run %d uses up run %d at the wrong time, or the wrong one", r.id, e.n)
		}
		return
	}
	x := r.tasks[e.task]
	ends := t.has(func(a entry) bool { return a.kind == "attempt" && a.runID == x.id && a.now == "SUCCESS" })
	if d := x.gates[e.id]; !ends || d.now != "SATISFIED" || (choice{d.n, d.m}) != c {
		j.breaks("%s of run %d uses up run %d at the wrong time, or the wrong one", x.model.name, r.id, e.n)
	}
}

// taskUsesUp judges whether a task that has succeeded used up what it was let pass by.
func (j *judge) taskUsesUp(a *attempt) {
	for _, d := range a.of.gates {
		if d.now == "SATISFIED" && !j.covered(edgeID{"task", d.id}, choice{d.n, d.m}) {
			j.breaks("%s of run %d has succeeded and has not used up run %d", a.of.model.name, a.of.run.id, d.n)
		}
	}
}

// usedInRun reports whether the task has succeeded in this run before, and used up what it depends on.
func (j *judge) usedInRun(x *taskRun) bool {
	for _, e := range x.model.edges {
		for _, u := range j.used[edgeID{"task", e.id}] {
			if u.by == x.run.id {
				return true
			}
		}
	}
	return false
}

// isUsedUp reports whether another pipeline has used up this very task of the run.
func (j *judge) isUsedUp(x *taskRun) bool {
	for _, t := range j.tasks {
		for _, e := range t.edges {
			if !e.otherPipeline || e.task != x.model.id {
				continue
			}
			for _, u := range j.used[edgeID{"task", e.id}] {
				if u.run == x.run.id {
					return true
				}
			}
		}
	}
	return false
}
