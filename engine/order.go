package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// order is what dependencies say about which task comes first. Each pipeline has a node before its tasks and one behind
// them, which dependencies between pipelines join.
type order struct {
	node   map[int64]int // of a task, by its id
	next   [][]int       // by any dependency
	prev   [][]int       // nodes that a node waits for in any case
	some   map[int]waitsForSome
	sorted []int // nodes behind those that lead to them, except in a circle
	rank   []int // where a node stands in sorted
	circle bool
}

// waitsForSome is what a task depends on that starts when only a number of its dependencies hold.
type waitsForSome struct {
	prev []int // -1 for a task that is nowhere
	need int
}

// behind are the tasks, as bits, that come before the node whatever dependencies are the ones that hold: all but those that
// so many dependencies lack that the others do not suffice.
func (s waitsForSome) behind(reached []uint64) uint64 {
	// lacking[n] are the tasks that more than n dependencies lack.
	lacking := make([]uint64, s.need)
	for _, p := range s.prev {
		miss := ^uint64(0)
		if p >= 0 {
			miss = ^reached[p]
		}
		for n := len(lacking) - 1; n > 0; n-- {
			lacking[n] |= lacking[n-1] & miss
		}
		lacking[0] |= miss
	}
	return ^lacking[len(lacking)-1]
}

// pair asks whether one task comes before another.
type pair struct{ first, second int64 }

func newOrder(graphs []*store.Graph) *order {
	o := &order{node: map[int64]int{}, some: map[int]waitsForSome{}}
	begin, end := map[int64]int{}, map[int64]int{}
	add := func() int {
		o.next, o.prev = append(o.next, nil), append(o.prev, nil)
		return len(o.next) - 1
	}
	join := func(from, to int) {
		o.next[from] = append(o.next[from], to)
		o.prev[to] = append(o.prev[to], from)
	}
	for _, g := range graphs {
		begin[g.Pipeline.ID], end[g.Pipeline.ID] = add(), add()
		for i := range g.Tasks {
			n := add()
			o.node[g.Tasks[i].ID] = n
			join(begin[g.Pipeline.ID], n)
			join(n, end[g.Pipeline.ID])
		}
	}
	for _, g := range graphs {
		for _, d := range g.DependsOn {
			if up, ok := end[d.PipelineID]; ok {
				join(up, begin[g.Pipeline.ID])
			}
		}
		for i := range g.Tasks {
			o.waits(&g.Tasks[i], join)
		}
	}
	o.sort()
	return o
}

func (o *order) waits(t *store.Task, join func(from, to int)) {
	n, need := o.node[t.ID], required(t)
	partly := waitsForSome{need: need}
	for _, d := range t.DependsOn {
		up, ok := o.node[d.TaskID]
		switch {
		case need < len(t.DependsOn) && ok:
			o.next[up] = append(o.next[up], n)
			partly.prev = append(partly.prev, up)
		case need < len(t.DependsOn):
			partly.prev = append(partly.prev, -1)
		case ok:
			join(up, n)
		}
	}
	if partly.prev != nil && need > 0 {
		o.some[n] = partly
	}
}

func (o *order) sort() {
	waiting := make([]int, len(o.next))
	for _, tos := range o.next {
		for _, to := range tos {
			waiting[to]++
		}
	}
	for n, w := range waiting {
		if w == 0 {
			o.sorted = append(o.sorted, n)
		}
	}
	for i := 0; i < len(o.sorted); i++ {
		for _, to := range o.next[o.sorted[i]] {
			if waiting[to]--; waiting[to] == 0 {
				o.sorted = append(o.sorted, to)
			}
		}
	}
	o.sortCircles(waiting)
	o.rank = make([]int, len(o.next))
	for i, n := range o.sorted {
		o.rank[n] = i
	}
}

// sortCircles appends the nodes of circles, and those behind them. But for the edges that close a circle, each stands behind
// those that lead to it, so that few rounds of answer suffice.
func (o *order) sortCircles(waiting []int) {
	var ended, trail []int
	next := make([]int, len(o.next))
	enter := func(n int) {
		waiting[n] = 0
		trail = append(trail, n)
	}
	for start := range waiting {
		if waiting[start] == 0 {
			continue
		}
		o.circle = true
		enter(start)
		for len(trail) > 0 {
			at := trail[len(trail)-1]
			if next[at] == len(o.next[at]) {
				ended, trail = append(ended, at), trail[:len(trail)-1]
				continue
			}
			to := o.next[at][next[at]]
			next[at]++
			if waiting[to] > 0 {
				enter(to)
			}
		}
	}
	slices.Reverse(ended)
	o.sorted = append(o.sorted, ended...)
}

// answer finds the pairs where a path of dependencies leads from the first task to the second. It follows the paths of 64
// tasks at a time.
func (o *order) answer(pairs []pair) map[pair]bool {
	asked := map[int64][]int64{}
	for _, p := range pairs {
		asked[p.first] = append(asked[p.first], p.second)
	}
	firsts := make([]int64, 0, len(asked))
	for first := range asked {
		firsts = append(firsts, first)
	}
	before := map[pair]bool{}
	reached := make([]uint64, len(o.next))
	for chunk := range slices.Chunk(firsts, 64) {
		clear(reached)
		for bit, first := range chunk {
			reached[o.node[first]] = 1 << bit
		}
		for again := true; again; {
			again = false
			for _, n := range o.sorted {
				before := reached[n]
				for _, from := range o.prev[n] {
					reached[n] |= reached[from]
				}
				if s, ok := o.some[n]; ok {
					reached[n] |= s.behind(reached)
				}
				again = again || o.circle && reached[n] != before
			}
		}
		for bit, first := range chunk {
			for _, second := range asked[first] {
				if reached[o.node[second]]&(1<<bit) != 0 {
					before[pair{first, second}] = true
				}
			}
		}
	}
	return before
}

// order warns of tasks that read or write one table while no dependency says which comes first.
func (c *checker) order(graphs []*store.Graph, l *lineage) {
	o := newOrder(graphs)
	for _, table := range l.tables {
		slices.SortStableFunc(table.writers, func(a, b *tracedTask) int { return o.rank[o.node[a.ID]] - o.rank[o.node[b.ID]] })
	}
	type meeting struct {
		table  *lineageTable
		task   *tracedTask
		others []*tracedTask // that write the table
		reads  bool          // task reads it, else it writes it too
	}
	var meetings []meeting
	var pairs []pair
	meet := func(m meeting) {
		if len(m.others) == 0 {
			return
		}
		meetings = append(meetings, m)
		for _, other := range m.others {
			pairs = append(pairs, pair{m.task.ID, other.ID}, pair{other.ID, m.task.ID})
		}
	}
	for _, t := range l.tasks {
		if t.Writes != nil {
			table := l.tables[t.Writes.Key]
			meet(meeting{table, t, neighbours(table.writers, t), false})
		}
		for _, read := range t.Reads {
			table := l.tables[read.Key]
			if !slices.Contains(table.writers, t) {
				meet(meeting{table, t, table.writers, true})
			}
		}
	}
	before := o.answer(pairs)
	for _, m := range meetings {
		if m.reads {
			c.reads(m.table.name, m.task, m.others, before)
		} else {
			c.writes(m.table.name, m.task, m.others, before)
		}
	}
}

// neighbours are the writers of a table that t has to be compared with: the one that stands before it when all are sorted,
// because where any two have no order, two neighbours have none; and what sets the table up in t's pipeline. Tasks that
// set it up do not disturb each other.
func neighbours(sorted []*tracedTask, t *tracedTask) []*tracedTask {
	if t.Effect == handlers.MakesEmpty {
		return nil
	}
	var found []*tracedTask
	var previous *tracedTask
	behind := false
	for _, w := range sorted {
		switch {
		case w == t:
			behind = true
		case w.Effect == handlers.MakesEmpty:
			if w.PipelineID == t.PipelineID {
				found = append(found, w)
			}
		case !behind:
			previous = w
		}
	}
	if previous != nil {
		found = append(found, previous)
	}
	return found
}

func (c *checker) writes(table string, t *tracedTask, others []*tracedTask, before map[pair]bool) {
	var loose []*tracedTask
	for _, other := range others {
		if !before[pair{t.ID, other.ID}] && !before[pair{other.ID, t.ID}] {
			loose = append(loose, other)
		}
	}
	if len(loose) > 0 {
		c.add(warn, fault.WritesUnordered, t.PipelineCode, t.Code, "TARGET_OBJECT", "let one depend on the other", "%s is written here and by %s, and no dependency says which comes first", table, codes(loose))
		for _, other := range loose {
			c.concerns(other.PipelineCode)
		}
	}
}

// reads warns when a reader has no order with a writer, or comes before all that make the table. To set a table up, only
// the columns have to be there.
func (c *checker) reads(table string, t *tracedTask, writers []*tracedTask, before map[pair]bool) {
	var loose, later, others []*tracedTask
	made := false
	for _, w := range writers {
		switch {
		case before[pair{w.ID, t.ID}]:
			made = made || w.Effect != handlers.Drops
		case before[pair{t.ID, w.ID}]:
			if w.Effect != handlers.Drops {
				later = append(later, w)
			}
		case w.Effect == handlers.Drops, w.Effect == handlers.ChangesRows && t.Effect != handlers.MakesEmpty:
			loose = append(loose, w)
		default:
			others = append(others, w)
		}
	}
	if len(loose) == 0 && !made && len(later) == 0 {
		loose = others
	}
	switch {
	case len(loose) > 0:
		c.add(warn, fault.ReadUnordered, t.PipelineCode, t.Code, "", dependOn(t, loose), "the SELECT reads %s, which %s, and no dependency says which comes first", table, writtenBy(loose))
	case !made && len(later) > 0:
		c.add(warn, fault.ReadUnordered, t.PipelineCode, t.Code, "", "depend on what writes it, or set it up earlier with SETUP_TABLE", "the SELECT reads %s before %s it: it finds the rows of an earlier run, and the first time no table", table, writtenBy(later))
	}
}

// dependOn is what to do so that t comes after other tasks, or before one that drops the table.
func dependOn(t *tracedTask, others []*tracedTask) string {
	if slices.ContainsFunc(t.DependsOn, func(d store.TaskEdge) bool { return d.TaskID == others[0].ID }) {
		return fmt.Sprintf("set run_condition to ALL: it lets the task start while %s has not ended", codes(others[:1]))
	}
	if others[0].Effect == handlers.Drops {
		return fmt.Sprintf("let %s depend on %s", codes(others[:1]), t.Code)
	}
	var names, pipelines []string
	for _, other := range others {
		switch {
		case other.Effect == handlers.Drops:
		case other.PipelineID == t.PipelineID:
			names = append(names, other.Code)
		default:
			names = append(names, other.PipelineCode+"."+other.Code)
			if !slices.Contains(pipelines, other.PipelineCode) {
				pipelines = append(pipelines, other.PipelineCode)
			}
		}
	}
	hint := "depends_on: [" + strings.Join(names, ", ") + "]"
	if len(pipelines) > 0 {
		hint += ", or let the pipeline depend on " + strings.Join(pipelines, ", ")
	}
	return hint
}

func writtenBy(tasks []*tracedTask) string {
	verb := "writes"
	switch {
	case len(tasks) > 1:
		verb = "write"
	case tasks[0].Effect == handlers.Drops:
		verb = "drops"
	}
	return codes(tasks) + " " + verb
}

// codes are the tasks' codes: the first three, and how many more.
func codes(tasks []*tracedTask) string {
	var names []string
	for i, t := range tasks {
		if i == 3 {
			return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(tasks)-3)
		}
		names = append(names, t.PipelineCode+"."+t.Code)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}
