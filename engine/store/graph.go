package store

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// Graph reads an active pipeline by its code; PIPELINE_NOT_FOUND when there is none.
func (s *Store) Graph(ctx context.Context, code string) (*Graph, error) {
	var graphs []*Graph
	err := s.read(ctx, "read the pipeline", func(t *tx) error {
		var id int64
		err := t.row("pipeline_id", code).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return t.noPipeline(code)
		}
		if err != nil {
			return err
		}
		graphs, err = t.graphs(id, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return graphs[0], nil
}

// Graphs reads every active pipeline, in order of their codes.
func (s *Store) Graphs(ctx context.Context) ([]*Graph, error) {
	var graphs []*Graph
	err := s.read(ctx, "read the pipelines", func(t *tx) (err error) {
		graphs, err = t.graphs(0, math.MaxInt64)
		return err
	})
	return graphs, err
}

func (t *tx) noPipeline(code string) error {
	var codes []string
	err := t.each("pipeline_codes", func(rows *sql.Rows) error {
		var c string
		err := rows.Scan(&c)
		codes = append(codes, c)
		return err
	})
	if err != nil {
		return err
	}
	missing := fault.New(fault.PipelineNotFound, "no active pipeline has the code %q", code)
	missing.Pipeline = code
	switch near := nearest.Of(code, codes); {
	case near != "":
		return missing.WithHint("did you mean %s?", near)
	case len(codes) == 0:
		return missing.WithHint("there are no pipelines yet: etl-craft apply")
	}
	return missing.WithHint("etl-craft list")
}

func pipelineColumns(p *Pipeline) []any {
	return []any{&p.ID, &p.Code, &p.Name, text(&p.Description), &p.RefreshType, text(&p.Schedule), text(&p.Timezone), day(&p.StartDate), yes(&p.Catchup),
		&p.SLAHours, yes(&p.Active), text(&p.Origin), subscriptions(&p.Notifications, &p.NotificationsError)}
}

// graphs reads the active pipelines with ids from lowest to highest.
func (t *tx) graphs(lowest, highest int64) ([]*Graph, error) {
	var graphs []*Graph
	byPipeline := map[int64]*Graph{}
	err := t.each("pipelines", func(rows *sql.Rows) error {
		g := &Graph{}
		p := &g.Pipeline
		err := rows.Scan(append(pipelineColumns(p), text(&g.PausedBy), text(&g.PauseWhy))...)
		graphs = append(graphs, g)
		byPipeline[p.ID] = g
		return err
	}, lowest, highest)
	if err != nil {
		return nil, err
	}
	err = t.each("pipeline_edges", func(rows *sql.Rows) error {
		var waiting int64
		var e PipelineEdge
		err := rows.Scan(&waiting, &e.ID, &e.PipelineID, &e.PipelineCode, yes(&e.PipelineActive), &e.Type, &e.Match, yes(&e.ConsumeRepairs))
		if g := byPipeline[waiting]; g != nil {
			g.DependsOn = append(g.DependsOn, e)
		}
		return err
	}, lowest, highest)
	if err != nil {
		return nil, err
	}
	return graphs, t.tasks(byPipeline, lowest, highest)
}

// tasks reads the tasks of the pipelines into their graphs.
func (t *tx) tasks(byPipeline map[int64]*Graph, lowest, highest int64) error {
	err := t.each("tasks", func(rows *sql.Rows) error {
		task := Task{Params: map[string]string{}}
		var count sql.NullInt64
		err := rows.Scan(&task.ID, &task.Code, &task.Type, &task.PipelineID, &task.Handler, text(&task.RunCondition), &count, text(&task.Origin))
		task.ConditionCount = int(count.Int64)
		if g := byPipeline[task.PipelineID]; g != nil {
			task.PipelineCode = g.Pipeline.Code
			g.Tasks = append(g.Tasks, task)
		}
		return err
	}, lowest, highest)
	if err != nil {
		return err
	}
	byID := map[int64]*Task{}
	for _, g := range byPipeline {
		for i := range g.Tasks {
			byID[g.Tasks[i].ID] = &g.Tasks[i]
		}
	}
	err = t.each("task_parameters", func(rows *sql.Rows) error {
		var taskID int64
		var name, value string
		err := rows.Scan(&taskID, &name, &value)
		if task := byID[taskID]; task != nil {
			task.Params[name] = value
		}
		return err
	}, lowest, highest)
	if err != nil {
		return err
	}
	return t.each("task_edges", func(rows *sql.Rows) error {
		var waiting int64
		var e TaskEdge
		err := rows.Scan(&waiting, &e.ID, &e.PipelineID, &e.PipelineCode, &e.TaskID, &e.TaskCode, yes(&e.TaskActive),
			&e.Type, &e.Match, yes(&e.ConsumeRepairs))
		if task := byID[waiting]; task != nil {
			task.DependsOn = append(task.DependsOn, e)
		}
		return err
	}, lowest, highest)
}

// ListPipelines reads every active pipeline with its newest run, in order of their codes.
func (s *Store) ListPipelines(ctx context.Context) ([]PipelineSummary, error) {
	var list []PipelineSummary
	err := s.read(ctx, "list the pipelines", func(t *tx) error {
		newest := map[int64]*Run{}
		err := t.each("newest_runs", func(rows *sql.Rows) error {
			run, err := scanRun(rows)
			if err == nil {
				newest[run.PipelineID] = run
			}
			return err
		})
		if err != nil {
			return err
		}
		return t.each("pipelines", func(rows *sql.Rows) error {
			var p PipelineSummary
			err := rows.Scan(append(pipelineColumns(&p.Pipeline), text(&p.PausedBy), text(&p.PauseWhy))...)
			p.LastRun = newest[p.ID]
			list = append(list, p)
			return err
		}, 0, int64(math.MaxInt64))
	})
	return list, err
}
