package engine

import (
	"slices"

	"github.com/etl-craft/etl-craft/engine/store"
)

// state is what a task's dependents need to know of it.
type state struct {
	status  string
	reason  string // why it was skipped
	written int64  // ROWS_WRITTEN
}

func (s state) ended() bool { return s.status != store.Pending && s.status != store.InProgress }

// holds reports whether an ended upstream satisfies a dependency.
func holds(on string, up state) bool {
	switch on {
	case store.OnSuccess:
		return up.status == store.Success
	case store.OnFailure:
		return up.status == store.Failed
	case store.OnAlways:
		return up.status == store.Success || up.status == store.Failed || up.status == store.Skipped
	case store.OnHasData:
		return up.status == store.Success && up.written > 0
	}
	return false
}

// comesFromFailure reports whether a dependency that an ended upstream does not satisfy goes back to a failure.
func comesFromFailure(up state) bool {
	return up.status == store.Failed || up.status == store.Cancelled || up.status == store.Skipped && up.reason == store.SkipUpstream
}

// required is how many of a task's dependencies must hold.
func required(t *store.Task) int {
	switch t.RunCondition {
	case "ANY":
		return min(1, len(t.DependsOn))
	case "N":
		return t.ConditionCount
	}
	return len(t.DependsOn)
}

// flow decides what may start in a run: a pure function of the graph and the states that it is told. Each edge is looked
// at once, when its upstream ends, so a whole run costs as much as its graph is big.
type flow struct {
	nodes   []node
	byID    map[int64]int
	touched []int // nodes to look at again
	pending int
	running int
}

type node struct {
	task       *store.Task
	state      state
	required   int
	held       int     // dependencies that hold
	open       int     // dependencies on tasks of the run that have not ended
	gates      int     // dependencies on tasks of other pipelines that nobody has judged
	refused    int     // such dependencies that do not hold
	unmet      []int64 // their ids
	failure    bool    // some lost dependency goes back to a failure
	offered    bool    // handed out as ready or to be judged, not again
	dependents []dependent
}

type dependent struct {
	node int
	on   string
}

// skipped is a task that cannot run any more, and why.
type skipped struct {
	task   *store.Task
	reason string
	lost   []store.TaskEdge // the dependencies that are the reason
}

// decision is what follows from the states told so far.
type decision struct {
	ready []*store.Task // may start
	gated []*store.Task // may start when enough of their dependencies on other pipelines hold: judge tells
	skips []skipped     // the flow has taken note of these
}

// newFlow makes the flow of a run. Tasks without a state are not part of it; dependencies on them cannot hold.
func newFlow(tasks []store.Task, states map[int64]state) *flow {
	f := &flow{byID: make(map[int64]int, len(tasks))}
	for i := range tasks {
		s, ok := states[tasks[i].ID]
		if !ok {
			continue
		}
		f.byID[tasks[i].ID] = len(f.nodes)
		f.nodes = append(f.nodes, node{task: &tasks[i], state: s, required: required(&tasks[i])})
	}
	for i := range f.nodes {
		f.link(i)
		f.touched = append(f.touched, i)
		switch f.nodes[i].state.status {
		case store.Pending:
			f.pending++
		case store.InProgress:
			f.running++
		}
	}
	return f
}

func (f *flow) link(i int) {
	n := &f.nodes[i]
	for _, e := range n.task.DependsOn {
		up, ok := f.byID[e.TaskID]
		switch {
		case e.PipelineID != n.task.PipelineID:
			n.gates++
		case !ok:
		case f.nodes[up].state.ended():
			f.resolve(n, e.Type, f.nodes[up].state)
		default:
			n.open++
			f.nodes[up].dependents = append(f.nodes[up].dependents, dependent{i, e.Type})
		}
	}
}

func (f *flow) resolve(n *node, on string, up state) {
	if holds(on, up) {
		n.held++
		return
	}
	n.failure = n.failure || comesFromFailure(up)
}

// start takes note that a task runs.
func (f *flow) start(taskID int64) {
	f.nodes[f.byID[taskID]].state = state{status: store.InProgress}
	f.pending--
	f.running++
}

// requeue takes note that a task that ran shall run again. Whether it may is decided anew, because an operator can have
// changed tasks that it depends on meanwhile.
func (f *flow) requeue(taskID int64) {
	i := f.byID[taskID]
	f.nodes[i].state, f.nodes[i].offered = state{status: store.Pending}, false
	f.touched = append(f.touched, i)
	f.running--
	f.pending++
}

// settle takes note that a running task has ended.
func (f *flow) settle(taskID int64, s state) {
	f.running--
	f.end(f.byID[taskID], s)
}

func (f *flow) end(i int, s state) {
	f.nodes[i].state = s
	for _, d := range f.nodes[i].dependents {
		n := &f.nodes[d.node]
		n.open--
		f.resolve(n, d.on, s)
		f.touched = append(f.touched, d.node)
	}
}

// needed is how many of a task's dependencies on other pipelines have to hold.
func (f *flow) needed(taskID int64) int {
	n := &f.nodes[f.byID[taskID]]
	return n.required - n.held
}

// judge tells how many of a task's dependencies on other pipelines hold, and the ids of those that do not.
func (f *flow) judge(taskID int64, hold int, unmet ...int64) {
	i := f.byID[taskID]
	n := &f.nodes[i]
	n.held += hold
	n.refused += n.gates - hold
	n.unmet = append(n.unmet, unmet...)
	n.gates = 0
	n.offered = false
	f.touched = append(f.touched, i)
}

// decide says what has become possible since it was asked last. Tasks that cannot run any more are skipped one after
// the other as far as that reaches; it waits for all upstreams of a task to end, so that the reason does not depend on
// which of them was faster.
func (f *flow) decide() decision {
	var d decision
	for len(f.touched) > 0 {
		i := f.touched[0]
		f.touched = f.touched[1:]
		n := &f.nodes[i]
		if n.state.status != store.Pending || n.offered {
			continue
		}
		switch {
		case n.held >= n.required:
			n.offered = true
			d.ready = append(d.ready, n.task)
		case n.open > 0:
		case n.held+n.gates >= n.required:
			n.offered = true
			d.gated = append(d.gated, n.task)
		default:
			reason := n.lostBy()
			d.skips = append(d.skips, skipped{n.task, reason, f.lost(n, reason)})
			f.pending--
			f.end(i, state{status: store.Skipped, reason: reason})
		}
	}
	return d
}

// lostBy is why a task cannot run any more.
func (n *node) lostBy() string {
	switch {
	case n.failure:
		return store.SkipUpstream
	case n.refused > 0 && n.held+n.refused >= n.required:
		return store.SkipGate
	}
	return store.SkipCondition
}

// lost are the dependencies for which a task is skipped: those that go back to a failure, those that a gate refused, or all
// that do not hold.
func (f *flow) lost(n *node, reason string) []store.TaskEdge {
	var lost []store.TaskEdge
	for _, e := range n.task.DependsOn {
		if e.PipelineID != n.task.PipelineID {
			if reason != store.SkipUpstream && slices.Contains(n.unmet, e.ID) {
				lost = append(lost, e)
			}
			continue
		}
		up, ok := f.byID[e.TaskID]
		if ok && holds(e.Type, f.nodes[up].state) || reason == store.SkipGate {
			continue
		}
		if reason == store.SkipUpstream && !(ok && comesFromFailure(f.nodes[up].state)) {
			continue
		}
		lost = append(lost, e)
	}
	return lost
}

// ancestors are the tasks of the run that a task waits for, directly or not, by their ids.
func (f *flow) ancestors(taskID int64) map[int64]bool {
	found := map[int64]bool{}
	look := []int64{taskID}
	for len(look) > 0 {
		n := &f.nodes[f.byID[look[0]]]
		look = look[1:]
		for _, e := range n.task.DependsOn {
			if _, ok := f.byID[e.TaskID]; ok && !found[e.TaskID] {
				found[e.TaskID] = true
				look = append(look, e.TaskID)
			}
		}
	}
	return found
}

// outcome is the status of a run whose tasks have all ended, and the reason when it is SKIPPED: the one that its tasks
// share, else that of a failure, else CONDITION_UNMET.
func outcome(states []state) (status, reason string) {
	if slices.ContainsFunc(states, func(s state) bool { return s.status != store.Success && s.status != store.Skipped }) {
		return store.Failed, ""
	}
	if len(states) == 0 || slices.ContainsFunc(states, func(s state) bool { return s.status == store.Success }) {
		return store.Success, ""
	}
	reason = states[0].reason
	for _, s := range states {
		if s.reason == store.SkipUpstream {
			return store.Skipped, store.SkipUpstream
		}
		if s.reason != reason {
			reason = store.SkipCondition
		}
	}
	return store.Skipped, reason
}
