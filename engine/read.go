package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/project"
)

// Status reads a run: the named one, else the unfinished one, else the newest. RUN_NOT_FOUND when there is none.
func (e *Engine) Status(ctx context.Context, req StatusRequest) (*RunDocument, error) {
	g, err := e.Store.Graph(ctx, req.Pipeline)
	if err != nil {
		return nil, err
	}
	run, err := e.chosen(ctx, g, req)
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, fault.New(fault.RunNotFound, "pipeline %s has not run yet", g.Pipeline.Code).
			WithHint("etl-craft run --pipeline %s", g.Pipeline.Code)
	}
	doc, err := e.document(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	doc.PausedBy, doc.PauseReason = orNil(g.PausedBy), orNil(g.PauseWhy)
	return doc, e.noteWaits(ctx, g, run, doc)
}

// noteWaits says what tasks of an unfinished run wait for in other pipelines that are running.
func (e *Engine) noteWaits(ctx context.Context, g *store.Graph, run *store.Run, doc *RunDocument) error {
	if run.Ended() {
		return nil
	}
	waits, err := e.Store.GateWaits(ctx, g.Pipeline.ID)
	if err != nil {
		return err
	}
	for _, w := range waits {
		i := slices.IndexFunc(doc.Tasks, func(t TaskDocument) bool { return t.TaskID == w.TaskID && t.Status == store.Pending })
		t := slices.IndexFunc(g.Tasks, func(t store.Task) bool { return t.ID == w.TaskID })
		if w.RunID != run.ID || i < 0 || t < 0 {
			continue
		}
		gates := taskGatesOf(&g.Tasks[t], run.Date)
		v, err := e.look(ctx, gates, len(gates))
		if err != nil {
			return err
		}
		names, _ := v.doubtful(gates)
		doc.Tasks[i].WaitsFor, doc.Tasks[i].WaitsUntil = orNil(strings.Join(names, ", ")), &Time{w.Until}
	}
	return nil
}

// chosen is the named run, else the unfinished one, else the newest; nil when the pipeline has not run yet.
func (e *Engine) chosen(ctx context.Context, g *store.Graph, req StatusRequest) (*store.Run, error) {
	run, err := e.named(ctx, g, req.RunID, req.RunKey)
	if err == nil && run == nil && req.RunKey != "" {
		return nil, noRun(g, "run with the key %s", req.RunKey)
	}
	for _, read := range []func(context.Context, int64) (*store.Run, error){e.Store.UnfinishedRun, e.Store.NewestRun} {
		if err != nil || run != nil {
			break
		}
		run, err = read(ctx, g.Pipeline.ID)
	}
	return run, err
}

// History lists the newest runs of a pipeline, at most limit.
func (e *Engine) History(ctx context.Context, pipeline string, limit int) (*HistoryDocument, error) {
	g, err := e.Store.Graph(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	runs, err := e.Store.History(ctx, g.Pipeline.ID, limit)
	if err != nil {
		return nil, err
	}
	doc := &HistoryDocument{Schema: "etl-craft/history/1", Pipeline: g.Pipeline.Code, Runs: make([]HistoryRun, len(runs))}
	for i := range runs {
		doc.Runs[i] = historyRun(&runs[i])
	}
	doc.Interventions = []HistoryIntervention{}
	if len(runs) == 0 {
		return doc, nil
	}
	done, err := e.Store.InterventionsOfRuns(ctx, g.Pipeline.ID, runs[len(runs)-1].ID, runs[0].ID)
	if err != nil {
		return nil, err
	}
	for i := range done {
		doc.Interventions = append(doc.Interventions, historyIntervention(&done[i]))
	}
	return doc, nil
}

// List lists the active pipelines.
func (e *Engine) List(ctx context.Context) (*ListDocument, error) {
	list, err := e.Store.ListPipelines(ctx)
	if err != nil {
		return nil, err
	}
	doc := &ListDocument{Schema: "etl-craft/list/1", Pipelines: make([]ListPipeline, len(list))}
	for i, p := range list {
		doc.Pipelines[i] = ListPipeline{
			Pipeline: p.Code, Name: p.Name, RefreshType: p.RefreshType, Schedule: orNil(p.Schedule), Timezone: orNil(p.Timezone),
			SLAHours: p.SLAHours, PausedBy: orNil(p.PausedBy), PauseReason: orNil(p.PauseWhy), Origin: orNil(p.Origin),
		}
		if p.LastRun != nil {
			last := historyRun(p.LastRun)
			doc.Pipelines[i].LastRun = &last
		}
	}
	return doc, nil
}

// pipelineID is the id of the active pipeline with a code; 0, which means all of them, for "".
func (e *Engine) pipelineID(ctx context.Context, code string) (int64, error) {
	if code == "" {
		return 0, nil
	}
	g, err := e.Store.Graph(ctx, code)
	if err != nil {
		return 0, err
	}
	return g.Pipeline.ID, nil
}

// Graph shows what a pipeline and its tasks wait for.
func (e *Engine) Graph(ctx context.Context, pipeline string) (*GraphDocument, error) {
	g, err := e.Store.Graph(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	doc := &GraphDocument{Schema: "etl-craft/graph/1", Pipeline: g.Pipeline.Code, DependsOn: []GraphEdge{}, Tasks: []GraphTask{}}
	for _, edge := range g.DependsOn {
		doc.DependsOn = append(doc.DependsOn, GraphEdge{Pipeline: edge.PipelineCode, On: edge.Type, Match: strings.ToLower(edge.Match)})
	}
	order, waves := inOrder(g)
	for _, t := range order {
		task := GraphTask{
			Task: t.Code, Handler: t.Handler, Action: orNil(t.Params["SQL_ACTION"]), Target: orNil(t.Params["TARGET_OBJECT"]),
			Wave: waves[t.ID], RunCondition: conditionText(t), DependsOn: []GraphEdge{},
		}
		for _, edge := range t.DependsOn {
			code := edge.TaskCode
			task.DependsOn = append(task.DependsOn, GraphEdge{Pipeline: edge.PipelineCode, Task: &code, On: edge.Type, Match: strings.ToLower(edge.Match)})
		}
		doc.Tasks = append(doc.Tasks, task)
	}
	return doc, nil
}

func conditionText(t *store.Task) string {
	switch t.RunCondition {
	case "":
		return "ALL"
	case "N":
		return strconv.Itoa(t.ConditionCount)
	}
	return t.RunCondition
}

// inOrder puts the tasks of a pipeline after those that they wait for, and gives each its wave. Tasks of a cycle come
// last, in wave 0.
func inOrder(g *store.Graph) ([]*store.Task, map[int64]int) {
	waves := make(map[int64]int, len(g.Tasks))
	waiting := make(map[int64]int, len(g.Tasks))
	dependents := map[int64][]*store.Task{}
	known := make(map[int64]bool, len(g.Tasks))
	for i := range g.Tasks {
		known[g.Tasks[i].ID] = true
	}
	var wave []*store.Task
	for i := range g.Tasks {
		t := &g.Tasks[i]
		for _, edge := range t.DependsOn {
			if known[edge.TaskID] {
				waiting[t.ID]++
				dependents[edge.TaskID] = append(dependents[edge.TaskID], t)
			}
		}
		if waiting[t.ID] == 0 {
			wave = append(wave, t)
		}
	}
	var order []*store.Task
	for n := 1; len(wave) > 0; n++ {
		var next []*store.Task
		for _, t := range wave {
			waves[t.ID] = n
			order = append(order, t)
			for _, d := range dependents[t.ID] {
				if waiting[d.ID]--; waiting[d.ID] == 0 {
					next = append(next, d)
				}
			}
		}
		slices.SortFunc(next, func(a, b *store.Task) int { return int(a.ID - b.ID) })
		wave = next
	}
	for i := range g.Tasks {
		if waves[g.Tasks[i].ID] == 0 {
			order = append(order, &g.Tasks[i])
		}
	}
	return order, waves
}

// Locks lists the target locks that are held, by any process.
func (e *Engine) Locks(ctx context.Context) (*LocksDocument, error) {
	held, err := e.Locker.Held(ctx)
	if err != nil {
		return nil, err
	}
	doc := &LocksDocument{Schema: "etl-craft/locks/1", Locks: []LockDocument{}}
	for _, h := range held {
		if h.Pipeline != "" {
			doc.Locks = append(doc.Locks, lockDocument(h))
		}
	}
	return doc, nil
}

// Export writes a pipeline file for each active pipeline into dir. A file that is there and says something else is
// FILE_EXISTS, and nothing is written; with force it is replaced.
func (e *Engine) Export(ctx context.Context, dir string, force bool) (*ExportDocument, error) {
	graphs, err := e.Store.Graphs(ctx)
	if err != nil {
		return nil, err
	}
	if force {
		for _, g := range graphs {
			if err := os.Remove(filepath.Join(dir, g.Pipeline.Code+".yml")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	files, err := project.Export(dir, graphs)
	if err != nil {
		return nil, err
	}
	return &ExportDocument{Schema: "etl-craft/export/1", Files: append([]string{}, files...)}, nil
}
