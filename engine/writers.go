package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// writer is a task as far as others that write its target have to agree with it.
type writer struct {
	pipeline, task, action, format, compare, audit string
	needs, makes                                   []string // audit columns
	maker                                          bool     // it makes the target, with those in makes
}

func (w *writer) String() string { return w.pipeline + "." + w.task }

// writers finds tasks that write one target and want it in different formats, with different audit columns, or hashed over
// different columns.
func (c *checker) writers(graphs []*store.Graph) {
	targets := map[string][]writer{}
	var order []string
	for _, g := range graphs {
		for i := range g.Tasks {
			t := &g.Tasks[i]
			if strings.TrimSpace(t.Params["TARGET_OBJECT"]) == "" {
				continue
			}
			target := strings.ToLower(qualified(c.env, t.Params["TARGET_OBJECT"]))
			if targets[target] == nil {
				order = append(order, target)
			}
			targets[target] = append(targets[target], c.writer(g, t))
		}
	}
	for _, target := range order {
		c.agree(target, targets[target])
	}
}

func (c *checker) writer(g *store.Graph, t *store.Task) writer {
	w := writer{pipeline: g.Pipeline.Code, task: t.Code, action: t.Params["SQL_ACTION"],
		format:  cmp.Or(t.Params["TABLE_FORMAT"], c.env.TableFormat, config.Native),
		compare: columnList(t.Params["MERGE_COMPARE_COLUMNS"])}
	if keeper, ok := c.e.handlers[t.Handler].(handlers.Maintainer); ok {
		task := handlerTask(g, t)
		w.audit = strings.Join(keeper.AuditColumns(task), ", ")
		w.needs = keeper.NeededColumns(task)
		w.makes, w.maker = keeper.MadeColumns(c.env, task)
	}
	return w
}

// agree compares the writers of one target.
func (c *checker) agree(target string, writers []writer) {
	first, compared, audited := &writers[0], &writer{}, &writer{}
	for i := range writers {
		w := &writers[i]
		if w.format != first.format {
			c.add(fail, fault.WritersDisagree, w.pipeline, w.task, "TABLE_FORMAT", "give both the same TABLE_FORMAT", "%s has format %s here and %s in %s", target, w.format, first.format, first)
			c.concerns(first.pipeline)
		}
		const hint = "write one target with one kind of action, or keep a target for each"
		maker, lacking := lacks(w, writers)
		switch {
		case maker != nil:
			c.add(fail, fault.WritersDisagree, w.pipeline, w.task, "SQL_ACTION", hint,
				"%s needs the audit columns %s, and %s makes %s without them", w.action, strings.Join(lacking, ", "), maker, target)
			c.concerns(maker.pipeline)
		case w.audit == "" || audited.audit == "":
		case w.audit != audited.audit:
			c.add(warn, fault.WritersDisagree, w.pipeline, w.task, "SQL_ACTION", hint,
				"%s gets the audit columns %s here and %s in %s", target, w.audit, audited.audit, audited)
			c.concerns(audited.pipeline)
		}
		if audited.audit == "" {
			audited = w
		}
		switch {
		case w.compare == "":
		case compared.compare == "":
			compared = w
		case w.compare != compared.compare:
			c.add(fail, fault.WritersDisagree, w.pipeline, w.task, "MERGE_COMPARE_COLUMNS", "list the same columns in the same order", "%s is merged by %s here and by %s in %s", target, w.compare, compared.compare, compared)
			c.concerns(compared.pipeline)
		}
	}
}

// lacks finds the first task that makes the target without audit columns that w needs. A table that nobody of the project
// makes may have them all.
func lacks(w *writer, writers []writer) (maker *writer, lacking []string) {
	for i := range writers {
		if !writers[i].maker {
			continue
		}
		for _, column := range w.needs {
			if !slices.Contains(writers[i].makes, column) {
				lacking = append(lacking, column)
			}
		}
		if len(lacking) > 0 {
			return &writers[i], lacking
		}
	}
	return nil, nil
}

func columnList(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToLower(strings.Join(handlers.Columns(text), "|"))
}
