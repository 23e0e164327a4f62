package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
)

// upstream states that a dependency can meet.
var (
	pending   = state{status: store.Pending}
	running   = state{status: store.InProgress}
	rows      = state{status: store.Success, written: 5}
	noRows    = state{status: store.Success}
	failed    = state{status: store.Failed}
	cancelled = state{status: store.Cancelled}
	unmet     = state{status: store.Skipped, reason: store.SkipCondition}
	doomed    = state{status: store.Skipped, reason: store.SkipUpstream}
	gated     = state{status: store.Skipped, reason: store.SkipGate}
)

func TestHolds(t *testing.T) {
	tests := []struct {
		up                               state
		success, failure, always, hasRow bool
	}{
		{rows, true, false, true, true},
		{noRows, true, false, true, false},
		{failed, false, true, true, false},
		{cancelled, false, false, false, false},
		{unmet, false, false, true, false},
		{doomed, false, false, true, false},
		{gated, false, false, true, false},
	}
	for _, tt := range tests {
		for on, want := range map[string]bool{store.OnSuccess: tt.success, store.OnFailure: tt.failure, store.OnAlways: tt.always, store.OnHasData: tt.hasRow} {
			if got := holds(on, tt.up); got != want {
				t.Errorf("%s on %+v = %t, want %t", on, tt.up, got, want)
			}
		}
	}
}

func TestOneTask(t *testing.T) {
	const wait, run = "wait", "run"
	on := func(types ...string) []string { return types }
	tests := []struct {
		name      string
		condition string
		count     int
		on        []string
		ups       []state
		want      string // wait, run or the reason of a skip
	}{
		{"nothing to wait for", "", 0, nil, nil, run},
		{"any of nothing", "ANY", 0, nil, nil, run},
		{"pending", "", 0, on(store.OnSuccess), []state{pending}, wait},
		{"running", "", 0, on(store.OnAlways), []state{running}, wait},
		{"success", "ALL", 0, on(store.OnSuccess), []state{noRows}, run},
		{"success after failure", "", 0, on(store.OnSuccess), []state{failed}, store.SkipUpstream},
		{"success after cancel", "", 0, on(store.OnSuccess), []state{cancelled}, store.SkipUpstream},
		{"always after cancel", "", 0, on(store.OnAlways), []state{cancelled}, store.SkipUpstream},
		{"success after far failure", "", 0, on(store.OnSuccess), []state{doomed}, store.SkipUpstream},
		{"success after a skip", "", 0, on(store.OnSuccess), []state{unmet}, store.SkipCondition},
		{"success after a gate", "", 0, on(store.OnSuccess), []state{gated}, store.SkipCondition},
		{"failure after success", "", 0, on(store.OnFailure), []state{rows}, store.SkipCondition},
		{"failure after failure", "", 0, on(store.OnFailure), []state{failed}, run},
		{"failure after far failure", "", 0, on(store.OnFailure), []state{doomed}, store.SkipUpstream},
		{"always after far failure", "", 0, on(store.OnAlways), []state{doomed}, run},
		{"no data", "", 0, on(store.OnHasData), []state{noRows}, store.SkipCondition},
		{"data", "", 0, on(store.OnHasData), []state{rows}, run},
		{"data of a failure", "", 0, on(store.OnHasData), []state{failed}, store.SkipUpstream},
		{"all, one lost, one open", "ALL", 0, on(store.OnSuccess, store.OnSuccess), []state{unmet, running}, wait},
		{"all, lost to both", "ALL", 0, on(store.OnSuccess, store.OnSuccess), []state{unmet, failed}, store.SkipUpstream},
		{"any, one holds, one open", "ANY", 0, on(store.OnSuccess, store.OnSuccess), []state{rows, running}, run},
		{"any, one lost, one open", "ANY", 0, on(store.OnSuccess, store.OnSuccess), []state{failed, pending}, wait},
		{"any, all lost", "ANY", 0, on(store.OnSuccess, store.OnFailure), []state{unmet, rows}, store.SkipCondition},
		{"two of three", "N", 2, on(store.OnSuccess, store.OnSuccess, store.OnSuccess), []state{rows, failed, rows}, run},
		{"two of three, one holds", "N", 2, on(store.OnSuccess, store.OnSuccess, store.OnSuccess), []state{rows, failed, pending}, wait},
		{"two of three, two lost", "N", 2, on(store.OnSuccess, store.OnSuccess, store.OnSuccess), []state{rows, failed, unmet}, store.SkipUpstream},
		{"either outcome of one task", "ANY", 0, on(store.OnSuccess, store.OnFailure), []state{failed, rows}, store.SkipUpstream},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task := store.Task{ID: 100, Code: "t", PipelineID: 1, RunCondition: tt.condition, ConditionCount: tt.count}
			tasks := []store.Task{}
			states := map[int64]state{100: pending}
			for i, up := range tt.ups {
				id := int64(i + 1)
				// Upstreams wait for another pipeline, so that pending ones do not get ready themselves.
				tasks = append(tasks, store.Task{ID: id, Code: fmt.Sprint("u", id), PipelineID: 1, DependsOn: []store.TaskEdge{{PipelineID: 2, TaskID: 999}}})
				states[id] = up
				task.DependsOn = append(task.DependsOn, store.TaskEdge{PipelineID: 1, TaskID: id, Type: tt.on[i]})
			}
			got := wait
			d := newFlow(append(tasks, task), states).decide()
			for _, r := range d.ready {
				if r.ID == 100 {
					got = run
				}
			}
			for _, s := range d.skips {
				if s.task.ID == 100 {
					got = s.reason
				}
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestGates(t *testing.T) {
	cross := store.TaskEdge{PipelineID: 2, TaskID: 50, Type: store.OnSuccess}
	own := store.TaskEdge{PipelineID: 1, TaskID: 1, Type: store.OnSuccess}
	tests := []struct {
		name      string
		up        state
		condition string
		judged    bool
		hold      int
		want      string
	}{
		{"not judged before the rest holds", running, "ALL", false, 0, "wait"},
		{"not judged after a failure", failed, "ALL", false, 0, store.SkipUpstream},
		{"holds", rows, "ALL", true, 1, "run"},
		{"refused", rows, "ALL", true, 0, store.SkipGate},
		{"not needed", rows, "ANY", false, 0, "run"},
		{"needed after a failure", failed, "ANY", true, 1, "run"},
		{"refused after a failure", failed, "ANY", true, 0, store.SkipUpstream},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlow([]store.Task{
				{ID: 1, Code: "up", PipelineID: 1},
				{ID: 2, Code: "t", PipelineID: 1, RunCondition: tt.condition, DependsOn: []store.TaskEdge{own, cross}},
			}, map[int64]state{1: tt.up, 2: pending})
			d := f.decide()
			if (len(d.gated) == 1) != tt.judged {
				t.Fatalf("gates to judge: %d", len(d.gated))
			}
			if tt.judged {
				f.judge(2, tt.hold)
				d = f.decide()
			}
			got := "wait"
			if len(d.ready) == 1 {
				got = "run"
			}
			if len(d.skips) == 1 {
				got = d.skips[0].reason
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	tests := []struct {
		states         []state
		status, reason string
	}{
		{nil, store.Success, ""},
		{[]state{rows, unmet}, store.Success, ""},
		{[]state{rows, failed}, store.Failed, ""},
		{[]state{failed, doomed}, store.Failed, ""},
		{[]state{rows, cancelled}, store.Failed, ""},
		{[]state{gated}, store.Skipped, store.SkipGate},
		{[]state{gated, unmet}, store.Skipped, store.SkipCondition},
		{[]state{gated, doomed}, store.Skipped, store.SkipUpstream},
	}
	for _, tt := range tests {
		if status, reason := outcome(tt.states); status != tt.status || reason != tt.reason {
			t.Errorf("outcome(%v) = %s %s, want %s %s", tt.states, status, reason, tt.status, tt.reason)
		}
	}
}

// randomGraph is a pipeline whose tasks depend on earlier ones only, in every way that validation accepts.
func randomGraph(r *rand.Rand) []store.Task {
	types := []string{store.OnSuccess, store.OnSuccess, store.OnFailure, store.OnAlways, store.OnHasData}
	tasks := make([]store.Task, 1+r.IntN(25))
	for i := range tasks {
		t := &tasks[i]
		t.ID, t.Code, t.PipelineID = int64(i+1), fmt.Sprint("t", i+1), 1
		for up := range i {
			if r.IntN(4) == 0 {
				t.DependsOn = append(t.DependsOn, store.TaskEdge{PipelineID: 1, TaskID: int64(up + 1), Type: types[r.IntN(len(types))]})
			}
		}
		if r.IntN(8) == 0 {
			t.DependsOn = append(t.DependsOn, store.TaskEdge{PipelineID: 2, TaskID: 999, Type: store.OnSuccess})
		}
		switch n := len(t.DependsOn); {
		case n > 0 && r.IntN(4) == 0:
			t.RunCondition = "ANY"
		case n > 0 && r.IntN(4) == 0:
			t.RunCondition, t.ConditionCount = "N", 1+r.IntN(n)
		}
	}
	r.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	return tasks
}

// TestSimulation runs random graphs whose tasks end at random times in random ways. The same results must come out
// whatever the order in which tasks end, and they must be those of a slow reading of the rules.
func TestSimulation(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SIMULATION_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("SIMULATION_SEED=%d", seed)
	for n := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, n))
		tasks := randomGraph(r)
		results := map[int64]state{}
		gates := map[int64]int{}
		for _, task := range tasks {
			results[task.ID] = []state{rows, rows, noRows, failed}[r.IntN(4)]
			gates[task.ID] = r.IntN(2)
		}
		want := slowly(tasks, results, gates)
		for range 3 {
			got := simulate(t, r, tasks, results, gates)
			for id, w := range want {
				if got[id] != w {
					t.Fatalf("case %d: task %d ends %+v, want %+v\n%+v", n, id, got[id], w, tasks)
				}
			}
		}
	}
}

// simulate runs the tasks through a flow, at most three at a time.
func simulate(t *testing.T, r *rand.Rand, tasks []store.Task, results map[int64]state, gates map[int64]int) map[int64]state {
	t.Helper()
	states := map[int64]state{}
	for _, task := range tasks {
		states[task.ID] = pending
	}
	f := newFlow(tasks, states)
	ends := map[int64]state{}
	var ready, live []*store.Task
	for {
		for {
			d := f.decide()
			ready = append(ready, d.ready...)
			for _, s := range d.skips {
				if _, ok := ends[s.task.ID]; ok {
					t.Fatalf("task %d ended twice", s.task.ID)
				}
				if s.reason == "" {
					t.Fatalf("task %d was skipped for no reason", s.task.ID)
				}
				ends[s.task.ID] = state{status: store.Skipped, reason: s.reason}
			}
			for _, g := range d.gated {
				f.judge(g.ID, gates[g.ID])
			}
			if len(d.gated) == 0 {
				break
			}
		}
		for len(live) < 3 && len(ready) > 0 {
			if slices.Contains(live, ready[0]) {
				t.Fatalf("task %d runs twice", ready[0].ID)
			}
			f.start(ready[0].ID)
			live, ready = append(live, ready[0]), ready[1:]
		}
		if len(live) == 0 {
			break
		}
		i := r.IntN(len(live))
		task := live[i]
		live = slices.Delete(live, i, i+1)
		if _, ok := ends[task.ID]; ok {
			t.Fatalf("task %d ended twice", task.ID)
		}
		ends[task.ID] = results[task.ID]
		f.settle(task.ID, results[task.ID])
	}
	if len(ends) != len(tasks) || f.pending != 0 || f.running != 0 {
		t.Fatalf("the run hangs: %d of %d tasks have ended, %d pending, %d running\n%+v", len(ends), len(tasks), f.pending, f.running, tasks)
	}
	return ends
}

// slowly reads the rules word by word, over and over until nothing changes.
func slowly(tasks []store.Task, results map[int64]state, gates map[int64]int) map[int64]state {
	ends := map[int64]state{}
	for changed := true; changed; {
		changed = false
		for _, task := range tasks {
			if _, ok := ends[task.ID]; ok {
				continue
			}
			need := len(task.DependsOn)
			switch task.RunCondition {
			case "ANY":
				need = 1
			case "N":
				need = task.ConditionCount
			}
			held, open, cross, failure := 0, 0, 0, false
			for _, e := range task.DependsOn {
				up, ended := ends[e.TaskID]
				switch {
				case e.PipelineID != 1:
					cross++
				case !ended:
					open++
				case holds(e.Type, up):
					held++
				case up.status == store.Failed || up.reason == store.SkipUpstream:
					failure = true
				}
			}
			passed := min(gates[task.ID], cross)
			switch {
			case held >= need:
				ends[task.ID] = results[task.ID]
			case open > 0:
				continue
			case held+passed >= need:
				ends[task.ID] = results[task.ID]
			case failure:
				ends[task.ID] = doomed
			case cross > 0 && held+cross >= need:
				ends[task.ID] = gated
			default:
				ends[task.ID] = unmet
			}
			changed = true
		}
	}
	return ends
}

// BenchmarkChain shows that a long chain costs what its length says.
func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		tasks := make([]store.Task, n)
		states := make(map[int64]state, n)
		for i := range tasks {
			tasks[i] = store.Task{ID: int64(i + 1), PipelineID: 1}
			states[int64(i+1)] = pending
			if i > 0 {
				tasks[i].DependsOn = []store.TaskEdge{{PipelineID: 1, TaskID: int64(i), Type: store.OnSuccess}}
			}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				f := newFlow(tasks, states)
				for d := f.decide(); len(d.ready) > 0; d = f.decide() {
					f.start(d.ready[0].ID)
					f.settle(d.ready[0].ID, rows)
				}
			}
		})
	}
}

// TestSkipText names the dependencies that are the reason, not those that hold.
func TestSkipText(t *testing.T) {
	own := func(id int64, code, on string) store.TaskEdge {
		return store.TaskEdge{ID: id, PipelineID: 1, TaskID: id, TaskCode: code, Type: on}
	}
	raw := store.TaskEdge{ID: 8, PipelineID: 2, PipelineCode: "RAW", TaskID: 50, TaskCode: "load", Type: store.OnSuccess}
	rates := store.TaskEdge{ID: 9, PipelineID: 2, PipelineCode: "RAW", TaskID: 51, TaskCode: "rates", Type: store.OnHasData}
	a, b := own(1, "a", store.OnSuccess), own(2, "b", store.OnHasData)
	empty := state{status: store.Success}
	tests := []struct {
		name      string
		condition string
		edges     []store.TaskEdge
		a, b      state
		hold      int
		unmet     []int64
		want      string
	}{
		{"one of two failed", "ALL", []store.TaskEdge{a, b}, failed, rows, 0, nil, "a task it depends on failed (a on SUCCESS)"},
		{"one failed, one is empty", "ANY", []store.TaskEdge{a, b}, failed, empty, 0, nil, "a task it depends on failed (a on SUCCESS)"},
		{"one is empty", "ALL", []store.TaskEdge{a, b}, rows, empty, 0, nil, "not enough dependencies hold (b on HAS_DATA)"},
		{"one of two gates refused", "ALL", []store.TaskEdge{a, b, raw, rates}, rows, rows, 1, []int64{9}, "a task of another pipeline is not ready (RAW.rates on HAS_DATA)"},
		{"any, and none holds", "ANY", []store.TaskEdge{b, raw, rates}, rows, empty, 0, []int64{8, 9}, "a task of another pipeline is not ready (RAW.load on SUCCESS, RAW.rates on HAS_DATA)"},
		{"gates that nobody asked", "ALL", []store.TaskEdge{b, raw}, rows, empty, 0, nil, "not enough dependencies hold (b on HAS_DATA)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlow([]store.Task{
				{ID: 1, Code: "a", PipelineID: 1}, {ID: 2, Code: "b", PipelineID: 1},
				{ID: 3, Code: "t", PipelineID: 1, RunCondition: tt.condition, DependsOn: tt.edges},
			}, map[int64]state{1: tt.a, 2: tt.b, 3: pending})
			d := f.decide()
			if len(d.gated) == 1 {
				f.judge(3, tt.hold, tt.unmet...)
				d = f.decide()
			}
			if len(d.skips) != 1 {
				t.Fatalf("skips: %v", d.skips)
			}
			if got := skipText(d.skips[0]); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
