package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
	"github.com/etl-craft/etl-craft/internal/project"
	"github.com/etl-craft/etl-craft/internal/sqlscan"
)

// LineageRequest says which lineage to show.
type LineageRequest struct {
	Table      string // schema.table or database.schema.table as in a SELECT; "" for all tables
	Upstream   bool   // only what the table is made of; neither or both is both
	Downstream bool   // only what is made of it
	Depth      int    // steps from the table; 0 for all
	Files      bool   // of the pipeline files, for which no Store is needed
}

// LineageDocument is etl-craft/lineage/1.
type LineageDocument struct {
	Schema   string            `json:"schema"`
	Table    *string           `json:"table"`  // that was asked for
	Tables   []LineageTable    `json:"tables"` // in order of their names
	Edges    []LineageEdge     `json:"edges"`  // in order of pipelines and tasks
	Untraced []LineageUntraced `json:"untraced"`
}

// LineageTable is one table of a LineageDocument. Upstream and Downstream are the steps from the table that was asked for,
// null when it is not on that side.
type LineageTable struct {
	Table      string        `json:"table"`
	Upstream   *int          `json:"upstream"`
	Downstream *int          `json:"downstream"`
	More       bool          `json:"more"` // the depth asked for ends here, the lineage does not
	WrittenBy  []LineageTask `json:"written_by"`
	ReadBy     []LineageTask `json:"read_by"`
}

// LineageTask is a task that reads or writes a table.
type LineageTask struct {
	Pipeline string  `json:"pipeline"`
	Task     string  `json:"task"`
	Action   *string `json:"action"`
}

// LineageEdge says that a task reads one table and writes another.
type LineageEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	LineageTask
	InCycle bool `json:"in_cycle"` // following edges from To leads back to From
}

// LineageUntraced is something that a task may read or write and that has no edge.
type LineageUntraced struct {
	Pipeline string  `json:"pipeline"`
	Task     *string `json:"task"` // null when the pipeline's file is not understood
	Target   *string `json:"target"`
	Reason   string  `json:"reason"`
}

// lineage is which tasks read and write which tables.
type lineage struct {
	tables map[string]*lineageTable
	tasks  []*tracedTask
}

type lineageTable struct {
	name             string // as the first task that writes it spells it, else the first that reads it
	writers, readers []*tracedTask
}

type tracedTask struct {
	*store.Task
	handlers.Trace
}

func (t *tracedTask) document() LineageTask {
	return LineageTask{t.PipelineCode, t.Code, orNil(t.Params["SQL_ACTION"])}
}

// trace finds the tables of all tasks whose handlers know them.
func (e *Engine) trace(env *handlers.Env, graphs []*store.Graph) *lineage {
	l := &lineage{tables: map[string]*lineageTable{}}
	for _, g := range graphs {
		for i := range g.Tasks {
			if tracer, ok := e.handlers[g.Tasks[i].Handler].(handlers.Tracer); ok {
				l.add(&tracedTask{&g.Tasks[i], tracer.Trace(env, handlerTask(g, &g.Tasks[i]))})
			}
		}
	}
	return l
}

func (l *lineage) add(t *tracedTask) {
	l.tasks = append(l.tasks, t)
	if t.Writes != nil {
		table := l.table(*t.Writes)
		if len(table.writers) == 0 {
			table.name = t.Writes.Name
		}
		table.writers = append(table.writers, t)
	}
	for _, read := range t.Reads {
		table := l.table(read)
		table.readers = append(table.readers, t)
	}
}

func (l *lineage) table(name handlers.TableName) *lineageTable {
	t := l.tables[name.Key]
	if t == nil {
		t = &lineageTable{name: name.Name}
		l.tables[name.Key] = t
	}
	return t
}

// Lineage shows which tables are made of which, by the tasks of all active pipelines. TABLE_NOT_FOUND when no task reads or
// writes the table that is asked for.
func (e *Engine) Lineage(ctx context.Context, req LineageRequest) (*LineageDocument, error) {
	var graphs []*store.Graph
	var problems []fault.Problem
	var err error
	if req.Files {
		var desired []store.DesiredPipeline
		desired, problems = project.Load(e.Config.Dir)
		graphs = graphsOf(desired)
	} else if graphs, err = e.Store.Graphs(ctx); err != nil {
		return nil, err
	}
	env := e.env()
	l := e.trace(env, graphs)
	doc, err := l.requested(env, req)
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		doc.Untraced = append(doc.Untraced, LineageUntraced{Pipeline: p.Pipeline, Task: orNil(p.Task), Reason: fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)})
	}
	return doc, nil
}

func (l *lineage) requested(env *handlers.Env, req LineageRequest) (*LineageDocument, error) {
	if req.Table == "" {
		return l.document(nil, nil), nil
	}
	key, err := l.find(env, req.Table)
	if err != nil {
		return nil, err
	}
	both := req.Upstream == req.Downstream
	up, down := map[string]int{}, map[string]int{}
	if both || req.Upstream {
		up = l.distances(key, req.Depth, sources)
	}
	if both || req.Downstream {
		down = l.distances(key, req.Depth, results)
	}
	doc := l.document(up, down)
	doc.Table = &l.tables[key].name
	return doc, nil
}

// find is the key of the table that a person means.
func (l *lineage) find(env *handlers.Env, text string) (string, error) {
	parts, ok := sqlscan.ParseName(strings.TrimSpace(text), env.Dialect.Syntax)
	if !ok {
		return "", fault.New(fault.Usage, "--table is %q, which is no table's name", text).WithHint("write schema.table")
	}
	if name, ok := env.Table(parts); ok && l.tables[name.Key] != nil {
		return name.Key, nil
	}
	var names, near []string
	for _, t := range l.tables {
		names = append(names, t.name)
	}
	slices.Sort(names)
	if n := nearest.Of(text, names); n != "" {
		near = append(near, n)
	}
	last := strings.ToLower(parts[len(parts)-1].Name)
	for _, n := range names { // the same table in other schemas
		if strings.HasSuffix(strings.ToLower(n), "."+last) && !slices.Contains(near, n) && len(near) < 3 {
			near = append(near, n)
		}
	}
	missing := fault.New(fault.TableNotFound, "no task reads or writes the table %s", text)
	if len(near) == 0 {
		return "", missing.WithHint("etl-craft lineage lists all tables")
	}
	return "", missing.WithHint("did you mean %s?", strings.Join(near, ", "))
}

// sources are the tables that a table is made of.
func sources(t *lineageTable) (keys []string) {
	for _, w := range t.writers {
		for _, r := range w.Reads {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// results are the tables that are made of a table.
func results(t *lineageTable) (keys []string) {
	for _, r := range t.readers {
		if r.Writes != nil {
			keys = append(keys, r.Writes.Key)
		}
	}
	return keys
}

// distances are the steps to each table that next leads to from the table start; depth 0 is no limit.
func (l *lineage) distances(start string, depth int, next func(*lineageTable) []string) map[string]int {
	steps := map[string]int{start: 0}
	queue := []string{start}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if depth > 0 && steps[at] == depth {
			continue
		}
		for _, key := range next(l.tables[at]) {
			if _, seen := steps[key]; !seen {
				steps[key] = steps[at] + 1
				queue = append(queue, key)
			}
		}
	}
	return steps
}

// document shows the tables of up and down, or all when both are nil, and the edges between two tables of one side.
func (l *lineage) document(up, down map[string]int) *LineageDocument {
	doc := &LineageDocument{Schema: "etl-craft/lineage/1", Tables: []LineageTable{}, Edges: []LineageEdge{}, Untraced: []LineageUntraced{}}
	all := up == nil && down == nil
	within := func(side map[string]int, keys ...string) bool {
		for _, key := range keys {
			if _, ok := side[key]; !ok {
				return false
			}
		}
		return true
	}
	for key, t := range l.tables {
		if !all && !within(up, key) && !within(down, key) {
			continue
		}
		table := LineageTable{Table: t.name, WrittenBy: []LineageTask{}, ReadBy: []LineageTask{}}
		if steps, ok := up[key]; ok {
			table.Upstream = &steps
			table.More = slices.ContainsFunc(sources(t), func(k string) bool { return !within(up, k) })
		}
		if steps, ok := down[key]; ok {
			table.Downstream = &steps
			table.More = table.More || slices.ContainsFunc(results(t), func(k string) bool { return !within(down, k) })
		}
		for _, w := range t.writers {
			table.WrittenBy = append(table.WrittenBy, w.document())
		}
		for _, r := range t.readers {
			table.ReadBy = append(table.ReadBy, r.document())
		}
		doc.Tables = append(doc.Tables, table)
	}
	slices.SortFunc(doc.Tables, func(a, b LineageTable) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Table), strings.ToLower(b.Table)), strings.Compare(a.Table, b.Table))
	})
	circle := l.circles()
	for _, t := range l.tasks {
		for _, read := range t.Reads {
			if t.Writes == nil || !all && !within(up, read.Key, t.Writes.Key) && !within(down, read.Key, t.Writes.Key) {
				continue
			}
			doc.Edges = append(doc.Edges, LineageEdge{From: l.tables[read.Key].name, To: l.tables[t.Writes.Key].name, LineageTask: t.document(),
				InCycle: circle[read.Key] == circle[t.Writes.Key]})
		}
		if t.Writes != nil && !all && len(down) == 0 && !within(up, t.Writes.Key) {
			continue // what else such a task reads changes nothing upstream of the table
		}
		for _, reason := range t.Unknown {
			u := LineageUntraced{Pipeline: t.PipelineCode, Task: &t.Code, Reason: reason}
			if t.Writes != nil {
				u.Target = &l.tables[t.Writes.Key].name
			}
			doc.Untraced = append(doc.Untraced, u)
		}
	}
	return doc
}

// circles gives tables that lead back to each other the same number, and every other table one of its own: Tarjan's
// strongly connected components.
func (l *lineage) circles() map[string]int {
	number, low, group := map[string]int{}, map[string]int{}, map[string]int{}
	var trail []string
	var visit func(key string)
	visit = func(key string) {
		number[key] = len(number) + 1
		low[key] = number[key]
		trail = append(trail, key)
		for _, next := range results(l.tables[key]) {
			if number[next] == 0 {
				visit(next)
				low[key] = min(low[key], low[next])
			} else if group[next] == 0 {
				low[key] = min(low[key], number[next])
			}
		}
		if low[key] != number[key] {
			return
		}
		for {
			last := trail[len(trail)-1]
			trail = trail[:len(trail)-1]
			group[last] = number[key]
			if last == key {
				return
			}
		}
	}
	for key := range l.tables {
		if number[key] == 0 {
			visit(key)
		}
	}
	return group
}
