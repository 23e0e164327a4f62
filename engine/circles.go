package engine

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// waits is who waits for whom, among tasks, pipelines or both.
type waits struct {
	all   []int64
	ups   map[int64][]int64
	names map[int64]string
	codes map[int64]string // of pipelines
}

func newWaits() *waits {
	return &waits{ups: map[int64][]int64{}, names: map[int64]string{}, codes: map[int64]string{}}
}

func (w *waits) add(id int64, name, pipeline string) {
	w.all, w.names[id], w.codes[id] = append(w.all, id), name, pipeline
}

func (w *waits) path(circle []int64) string {
	texts := make([]string, 0, len(circle)+1)
	for _, id := range append(slices.Clone(circle), circle[0]) {
		texts = append(texts, w.names[id])
	}
	return strings.Join(texts, " waits for ")
}

// circular names a circle as a problem of the pipeline and task that it begins with.
func (c *checker) circular(w *waits, circle []int64, task, what string) {
	c.add(fail, fault.GraphCycle, w.codes[circle[0]], task, "", "remove one of these dependencies", "%s depend on each other in a circle: %s", what, w.path(circle))
	for _, id := range circle {
		c.concerns(w.codes[id])
	}
}

// taskCycles names a circle of each group of a pipeline's tasks that wait for each other.
func (c *checker) taskCycles(g *store.Graph) {
	w := newWaits()
	for i := range g.Tasks {
		t := &g.Tasks[i]
		w.add(t.ID, t.Code, g.Pipeline.Code)
		for _, d := range t.DependsOn {
			if d.PipelineCode == g.Pipeline.Code && d.TaskID != t.ID {
				w.ups[t.ID] = append(w.ups[t.ID], d.TaskID)
			}
		}
	}
	for _, group := range w.groups() {
		circle := w.circle(group[0], group[0], members(group))
		c.circular(w, circle, w.names[circle[0]], "tasks")
	}
}

func (c *checker) pipelineCycles(graphs []*store.Graph) {
	w := newWaits()
	for _, g := range graphs {
		w.add(g.Pipeline.ID, g.Pipeline.Code, g.Pipeline.Code)
		for _, d := range g.DependsOn {
			if d.PipelineID != g.Pipeline.ID {
				w.ups[g.Pipeline.ID] = append(w.ups[g.Pipeline.ID], d.PipelineID)
			}
		}
	}
	for _, group := range w.groups() {
		c.circular(w, w.circle(group[0], group[0], members(group)), "", "pipelines")
	}
}

// mixedCycles names circles that lead through tasks of several pipelines, or through tasks and pipelines. Each has a task
// that waits for one of another pipeline: without such, it is a circle of tasks or of pipelines.
func (c *checker) mixedCycles(graphs []*store.Graph) {
	// Tasks have their ids. A pipeline has two numbers below 0: its tasks wait for the first, the second for its tasks.
	begin := func(pipeline int64) int64 { return -2 * pipeline }
	end := func(pipeline int64) int64 { return -2*pipeline - 1 }
	w, tasks := newWaits(), map[int64]string{}
	type crossing struct{ task, up int64 }
	var crossings []crossing
	for _, g := range graphs {
		id, code := g.Pipeline.ID, g.Pipeline.Code
		w.add(begin(id), "the start of "+code, code)
		w.add(end(id), "the end of "+code, code)
		w.ups[end(id)] = append(w.ups[end(id)], begin(id))
		for _, d := range g.DependsOn {
			if d.PipelineID != id {
				w.ups[begin(id)] = append(w.ups[begin(id)], end(d.PipelineID))
			}
		}
		for i := range g.Tasks {
			t := &g.Tasks[i]
			w.add(t.ID, code+"."+t.Code, code)
			tasks[t.ID] = t.Code
			w.ups[t.ID] = append(w.ups[t.ID], begin(id))
			w.ups[end(id)] = append(w.ups[end(id)], t.ID)
			for _, d := range t.DependsOn {
				if d.TaskID != t.ID {
					w.ups[t.ID] = append(w.ups[t.ID], d.TaskID)
				}
				if d.PipelineID != id {
					crossings = append(crossings, crossing{t.ID, d.TaskID})
				}
			}
		}
	}
	if len(crossings) == 0 {
		return
	}
	for _, group := range w.groups() {
		within := members(group)
		i := slices.IndexFunc(crossings, func(x crossing) bool { return within[x.task] && within[x.up] })
		if i < 0 {
			continue
		}
		circle := w.circle(crossings[i].task, crossings[i].up, within)
		c.circular(w, circle, tasks[circle[0]], "tasks and pipelines")
	}
}

func members(group []int64) map[int64]bool {
	m := make(map[int64]bool, len(group))
	for _, id := range group {
		m[id] = true
	}
	return m
}

// circle is a shortest one within a group, in which start waits for via; any one through start when they are the same. It
// begins with the member that w lists first.
func (w *waits) circle(start, via int64, within map[int64]bool) []int64 {
	from := map[int64]int64{}
	queue := []int64{via}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		for _, up := range w.ups[at] {
			if _, seen := from[up]; seen || !within[up] {
				continue
			}
			from[up] = at
			queue = append(queue, up)
		}
		if _, found := from[start]; found {
			break
		}
	}
	circle := []int64{start}
	for at := from[start]; at != via; at = from[at] {
		circle = append(circle, at)
	}
	if via != start {
		circle = append(circle, via)
	}
	slices.Reverse(circle) // it was followed from the last back
	first := slices.IndexFunc(w.all, func(id int64) bool { return slices.Contains(circle, id) })
	at := slices.Index(circle, w.all[first])
	return slices.Concat(circle[at:], circle[:at])
}

// groups are those of more than one member that all wait for each other, directly or not: Tarjan's strongly connected
// components, in the order and with the members in the order of w.all. It does not recurse, because a pipeline may be a
// chain of thousands of tasks.
func (w *waits) groups() [][]int64 {
	index := make(map[int64]int, len(w.all))
	for i, id := range w.all {
		index[id] = i
	}
	ups := make([][]int, len(w.all))
	for i, id := range w.all {
		for _, up := range w.ups[id] {
			if n, ok := index[up]; ok {
				ups[i] = append(ups[i], n)
			}
		}
	}
	const closed = -1
	number, low, next := make([]int, len(ups)), make([]int, len(ups)), make([]int, len(ups))
	count := 0
	var trail, open []int
	var groups [][]int64
	enter := func(n int) {
		count++
		number[n], low[n] = count, count
		trail, open = append(trail, n), append(open, n)
	}
	for start := range ups {
		if number[start] != 0 {
			continue
		}
		enter(start)
		for len(trail) > 0 {
			at := trail[len(trail)-1]
			if next[at] < len(ups[at]) {
				up := ups[at][next[at]]
				next[at]++
				switch {
				case number[up] == 0:
					enter(up)
				case number[up] != closed:
					low[at] = min(low[at], number[up])
				}
				continue
			}
			trail = trail[:len(trail)-1]
			if len(trail) > 0 {
				below := trail[len(trail)-1]
				low[below] = min(low[below], low[at])
			}
			if low[at] != number[at] {
				continue
			}
			cut := len(open) - 1
			for open[cut] != at {
				cut--
			}
			group := slices.Clone(open[cut:])
			open = open[:cut]
			slices.Sort(group)
			var ids []int64
			for _, n := range group {
				number[n] = closed
				ids = append(ids, w.all[n])
			}
			if len(ids) > 1 {
				groups = append(groups, ids)
			}
		}
	}
	slices.SortFunc(groups, func(a, b []int64) int { return index[a[0]] - index[b[0]] })
	return groups
}
