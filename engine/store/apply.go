package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// ApplyMetadata makes the CFG_ rows of the declared pipelines equal to pipelines, in one transaction: it inserts, updates
// in place, restores retired rows of the same key with their ids, and retires tasks, parameters and dependencies that are
// no longer declared. Rows of pipelines that are not declared stay as they are.
//
// Before the commit, check sees the graphs of all active pipelines. Its error undoes everything and is returned with the
// report of what would have changed; ErrDryRun undoes everything and is no error. Dependencies on something that is not
// there are METADATA_INVALID, all of them listed.
func (s *Store) ApplyMetadata(ctx context.Context, actor Actor, pipelines []DesiredPipeline, check func([]*Graph) error) (ApplyReport, error) {
	var report ApplyReport
	err := s.write(ctx, "apply the pipeline files", func(t *tx) error {
		if s.b.Dialect == Postgres {
			if _, err := t.exec("lock_metadata"); err != nil {
				return err
			}
		}
		a := &applier{tx: t}
		err := a.apply(actor, pipelines)
		report = a.report
		if err != nil {
			return err
		}
		graphs, err := t.graphs(0, math.MaxInt64)
		if err != nil {
			return err
		}
		if err := check(graphs); err != nil {
			return err
		}
		return t.endSession()
	})
	if errors.Is(err, ErrDryRun) {
		return report, nil
	}
	return report, err
}

// beginSession tells the triggers of CFG_ tables who writes, until the end of the transaction.
func (t *tx) beginSession(actor Actor, origin string) error {
	_, err := t.exec("begin_session", actor.Name, actor.Kind, orNull(origin))
	return err
}

func (t *tx) endSession() error {
	if t.s.b.Dialect != SQLite {
		return nil
	}
	_, err := t.exec("end_session")
	return err
}

// cfgTables are the rows that exist, by table.
type cfgTables struct {
	pipelines, tasks, parameters, taskEdges, pipelineEdges *cfgTable
}

func (t *tx) tables() (c cfgTables, err error) {
	for _, to := range []struct {
		table **cfgTable
		kind  rowKind
	}{
		{&c.pipelines, pipelineRows}, {&c.tasks, taskRows}, {&c.parameters, parameterRows},
		{&c.taskEdges, taskEdgeRows}, {&c.pipelineEdges, pipelineEdgeRows},
	} {
		if *to.table, err = t.table(to.kind); err != nil {
			return c, err
		}
	}
	for _, row := range c.pipelines.rows {
		c.pipelines.names[idText(row.id)] = row.key[0]
	}
	for _, row := range c.tasks.rows {
		c.tasks.names[idText(row.id)] = c.pipelines.names[row.key[0]] + "." + row.key[1]
	}
	return c, nil
}

func (a *applier) apply(actor Actor, pipelines []DesiredPipeline) error {
	have, err := a.tables()
	if err != nil {
		return err
	}
	// Tasks first, everywhere: dependencies name tasks of other pipelines.
	for _, p := range pipelines {
		if err := a.beginSession(actor, p.Origin); err != nil {
			return err
		}
		if err := a.pipeline(have, p); err != nil {
			return err
		}
	}
	var problems []fault.Problem
	for _, p := range pipelines {
		if err := a.beginSession(actor, p.Origin); err != nil {
			return err
		}
		missing, err := a.dependencies(have, p)
		if err != nil {
			return err
		}
		problems = append(problems, missing...)
	}
	if len(problems) == 0 {
		return nil
	}
	invalid := fault.New(fault.MetadataInvalid, "%s", problems[0].Message)
	if len(problems) > 1 {
		invalid = fault.New(fault.MetadataInvalid, "%d dependencies cannot be met, the first: %s", len(problems), problems[0].Message)
	}
	invalid.Problems = problems
	return invalid
}

// pipeline puts the pipeline's row, its tasks and their parameters, and retires tasks that are not declared.
func (a *applier) pipeline(have cfgTables, p DesiredPipeline) error {
	sla := ""
	if p.SLAHours != nil {
		sla = strconv.FormatFloat(*p.SLAHours, 'f', -1, 64)
	}
	parameters := ""
	if known := have.pipelines.rows[rowKey{p.Code}]; known != nil {
		parameters = known.values[slices.Index(pipelineRows.columns, "PIPELINE_PARAMETERS")].String
	}
	parameters, err := writeSubscriptions(parameters, p.Notifications)
	if err != nil {
		return err
	}
	row, err := a.put(have.pipelines, rowKey{p.Code}, p.Code, []sql.NullString{
		exactly(p.Name), optional(p.Description), exactly(p.RefreshType), optional(p.Schedule), optional(p.Timezone), optional(sla),
		optional(parameters), optional(p.Origin)})
	if err != nil {
		return err
	}
	for _, task := range p.Tasks {
		if err := a.task(have, p, row.id, task); err != nil {
			return err
		}
	}
	for _, key := range have.tasks.byOwner[idText(row.id)] {
		task := have.tasks.rows[key]
		if !task.active || task.kept {
			continue
		}
		name := p.Code + "." + key[1]
		if err := a.retire(have.tasks, task, name); err != nil {
			return err
		}
		if err := a.retireParameters(have, task.id, name); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) task(have cfgTables, p DesiredPipeline, pipelineID int64, task DesiredTask) error {
	name := p.Code + "." + task.Code
	count := ""
	if task.ConditionCount != 0 {
		count = strconv.Itoa(task.ConditionCount)
	}
	row, err := a.put(have.tasks, rowKey{idText(pipelineID), task.Code}, name, []sql.NullString{
		exactly(task.Type), exactly(task.Handler), exactly(cmp.Or(task.RunCondition, "ALL")), optional(count), optional(p.Origin)})
	if err != nil {
		return err
	}
	for _, parameter := range slices.Sorted(maps.Keys(task.Params)) {
		_, err := a.put(have.parameters, rowKey{idText(row.id), parameter}, name+"."+parameter,
			[]sql.NullString{exactly(task.Params[parameter]), optional(p.Origin)})
		if err != nil {
			return err
		}
	}
	return a.retireParameters(have, row.id, name)
}

// retireParameters retires the task's parameters that are not declared.
func (a *applier) retireParameters(have cfgTables, taskID int64, task string) error {
	for _, key := range have.parameters.byOwner[idText(taskID)] {
		row := have.parameters.rows[key]
		if !row.active || row.kept {
			continue
		}
		if err := a.retire(have.parameters, row, task+"."+key[1]); err != nil {
			return err
		}
	}
	return nil
}

// dependencies puts what the pipeline and its tasks wait for and retires the rest. It returns the dependencies on
// something that is not there.
func (a *applier) dependencies(have cfgTables, p DesiredPipeline) (missing []fault.Problem, err error) {
	pipeline := have.pipelines.rows[rowKey{p.Code}]
	for _, e := range p.DependsOn {
		on := have.pipelines.rows[rowKey{e.Pipeline}]
		if on == nil || !on.active {
			missing = append(missing, noDependency(p.Code, "", e.Pipeline, have.active(),
				"pipeline %s depends on pipeline %s, which does not exist", p.Code, e.Pipeline))
			continue
		}
		key := rowKey{idText(pipeline.id), idText(on.id), e.Type}
		_, err := a.put(have.pipelineEdges, key, edgeName(p.Code, e.Pipeline, e.Type), edgeValues(e.Match, e.ConsumeRepairs, p.Origin))
		if err != nil {
			return nil, err
		}
	}
	if err := a.retireEdges(have.pipelineEdges, pipeline.id, p.Code, have.pipelines); err != nil {
		return nil, err
	}
	for _, task := range p.Tasks {
		unknown, err := a.taskDependencies(have, p, pipeline.id, task)
		if err != nil {
			return nil, err
		}
		missing = append(missing, unknown...)
	}
	// Tasks that were retired wait for nothing any more.
	for _, key := range have.tasks.byOwner[idText(pipeline.id)] {
		if err := a.retireEdges(have.taskEdges, have.tasks.rows[key].id, p.Code+"."+key[1], have.tasks); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

func (a *applier) taskDependencies(have cfgTables, p DesiredPipeline, pipelineID int64, task DesiredTask) (missing []fault.Problem, err error) {
	name := p.Code + "." + task.Code
	waiting := have.tasks.rows[rowKey{idText(pipelineID), task.Code}]
	for _, e := range task.DependsOn {
		code := cmp.Or(e.Pipeline, p.Code)
		onName := code + "." + e.Task
		var on *cfgRow
		if other := have.pipelines.rows[rowKey{code}]; other != nil && other.active {
			on = have.tasks.rows[rowKey{idText(other.id), e.Task}]
		}
		if on == nil || !on.active {
			missing = append(missing, noDependency(p.Code, task.Code, onName, have.activeTasks(name),
				"task %s depends on task %s, which does not exist", name, onName))
			continue
		}
		key := rowKey{idText(waiting.id), idText(on.id), e.Type}
		_, err := a.put(have.taskEdges, key, edgeName(name, onName, e.Type), edgeValues(e.Match, e.ConsumeRepairs, p.Origin))
		if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// retireEdges retires what the row with id waits for and no file declares. ends is the table of what is waited for.
func (a *applier) retireEdges(edges *cfgTable, id int64, name string, ends *cfgTable) error {
	for _, key := range edges.byOwner[idText(id)] {
		row := edges.rows[key]
		if !row.active || row.kept {
			continue
		}
		if err := a.retire(edges, row, edgeName(name, ends.names[key[1]], key[2])); err != nil {
			return err
		}
	}
	return nil
}

// noDependency is a problem of a pipeline or task that waits for something that is not among known.
func noDependency(pipeline, task, on string, known []string, format string, args ...any) fault.Problem {
	hint := "declare it, or remove the dependency"
	if near := nearest.Of(on, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault.Problem{Level: "FAIL", Code: fault.DependencyInvalid, Pipeline: pipeline, Task: task, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// active lists the codes of the pipelines that exist.
func (c cfgTables) active() []string {
	var codes []string
	for key, row := range c.pipelines.rows {
		if row.active {
			codes = append(codes, key[0])
		}
	}
	slices.Sort(codes)
	return codes
}

// activeTasks lists the tasks that exist but one, as PIPELINE.TASK.
func (c cfgTables) activeTasks(but string) []string {
	pipelines := map[string]bool{}
	for _, row := range c.pipelines.rows {
		pipelines[idText(row.id)] = row.active
	}
	var names []string
	for key, row := range c.tasks.rows {
		if name := c.tasks.names[idText(row.id)]; row.active && pipelines[key[0]] && name != but {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func edgeName(waiting, on, kind string) string { return waiting + " <- " + on + " on " + kind }

func edgeValues(match string, consumeRepairs bool, origin string) []sql.NullString {
	return []sql.NullString{exactly(cmp.Or(match, MatchNewest)), exactly(flag(consumeRepairs)), optional(origin)}
}
