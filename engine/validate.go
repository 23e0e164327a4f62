package engine

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
	"github.com/etl-craft/etl-craft/internal/project"
)

// ValidateRequest says what to validate.
type ValidateRequest struct {
	Pipeline string // "" for all
	Files    bool   // the pipeline files instead of the Engine DB's rows; no Store is needed then
	Connect  bool   // ask the warehouse too
}

// Validate finds every problem, by default those that need no warehouse. A FAIL comes with an error of code CHECK_FAILED
// beside the document.
func (e *Engine) Validate(ctx context.Context, req ValidateRequest) (*ValidateDocument, error) {
	pipeline := req.Pipeline
	var problems []fault.Problem
	var graphs []*store.Graph
	var err error
	if req.Files {
		graphs, problems, err = e.validateFiles(pipeline)
	} else {
		graphs, problems, err = e.validateRows(ctx, pipeline)
	}
	if err == nil && req.Connect {
		var found []fault.Problem
		graphs = slices.DeleteFunc(graphs, func(g *store.Graph) bool { return pipeline != "" && g.Pipeline.Code != pipeline })
		found, err = e.connected(ctx, graphs, problems)
		project.Locate(e.Config.Dir, found)
		problems = append(problems, found...)
	}
	if err != nil {
		return nil, err
	}
	doc := &ValidateDocument{Schema: "etl-craft/validate/1", Problems: []fault.Problem{}}
	for _, p := range problems {
		if pipeline != "" && p.Pipeline != "" && p.Pipeline != pipeline && !slices.Contains(p.Others, pipeline) {
			continue
		}
		doc.Problems = append(doc.Problems, p)
		if p.Level == fail {
			doc.Failures++
		} else {
			doc.Warnings++
		}
	}
	if doc.Failures > 0 {
		return doc, fault.New(fault.CheckFailed, "%d problem(s) and %d warning(s)", doc.Failures, doc.Warnings)
	}
	return doc, nil
}

func (e *Engine) validateRows(ctx context.Context, pipeline string) ([]*store.Graph, []fault.Problem, error) {
	if pipeline != "" {
		if _, err := e.Store.Graph(ctx, pipeline); err != nil {
			return nil, nil, err
		}
	}
	graphs, err := e.Store.Graphs(ctx)
	if err != nil {
		return nil, nil, err
	}
	problems := e.problems(graphs, true)
	project.Locate(e.Config.Dir, problems)
	differences, err := e.fileDifferences(ctx)
	return graphs, append(problems, differences...), err
}

// fileDifferences warns of pipelines whose files say something else than the Engine DB.
func (e *Engine) fileDifferences(ctx context.Context) ([]fault.Problem, error) {
	desired, problems := project.Load(e.Config.Dir)
	for i := range problems {
		problems[i].Level = warn // the rows are what runs
	}
	if len(problems) > 0 || len(desired) == 0 {
		return problems, nil
	}
	report, err := e.Store.ApplyMetadata(ctx, e.Actor, desired, func([]*store.Graph) error { return store.ErrDryRun })
	if err != nil {
		if !fault.Has(err, fault.MetadataInvalid) {
			return nil, err
		}
		problems := slices.Clone(fault.As(err).Problems)
		for i := range problems {
			problems[i].Level = warn
		}
		return problems, nil
	}
	counts := map[string]int{}
	var order []string
	for _, c := range report.Changes {
		code, _, _ := strings.Cut(c.Key, ".")
		code, _, _ = strings.Cut(code, " ")
		if counts[code] == 0 {
			order = append(order, code)
		}
		counts[code]++
	}
	for _, code := range order {
		problems = append(problems, fault.Problem{Level: warn, Code: fault.FilesDiffer, Pipeline: code,
			Message: fmt.Sprintf("the pipeline file differs from the Engine DB in %d row(s)", counts[code]), Hint: "etl-craft apply --dry-run shows them, etl-craft apply makes them equal"})
	}
	return problems, nil
}

func (e *Engine) validateFiles(pipeline string) ([]*store.Graph, []fault.Problem, error) {
	desired, problems := project.Load(e.Config.Dir)
	graphs, found := e.fileProblems(desired)
	project.Locate(e.Config.Dir, found)
	if pipeline != "" && !slices.ContainsFunc(desired, func(d store.DesiredPipeline) bool { return d.Code == pipeline }) && len(problems) == 0 {
		return nil, nil, fault.New(fault.PipelineNotFound, "no file in %s declares the pipeline %s", project.Folder, pipeline)
	}
	return graphs, append(problems, found...), nil
}

// fileProblems are those of what the files declare, without the codes that reading the files has found wrong.
func (e *Engine) fileProblems(desired []store.DesiredPipeline) ([]*store.Graph, []fault.Problem) {
	graphs := graphsOf(desired)
	return graphs, slices.DeleteFunc(e.problems(graphs, true), func(p fault.Problem) bool { return p.Code == fault.CodeInvalid })
}

// graphsOf turns files into graphs with ids of their own. What no file declares stays inactive, as it may be in the
// Engine DB only.
func graphsOf(desired []store.DesiredPipeline) []*store.Graph {
	type name struct{ pipeline, task string }
	ids := map[name]int64{}
	for _, p := range desired {
		ids[name{p.Code, ""}] = int64(len(ids) + 1)
		for _, t := range p.Tasks {
			ids[name{p.Code, t.Code}] = int64(len(ids) + 1)
		}
	}
	graphs := make([]*store.Graph, len(desired))
	for i, p := range desired {
		id := ids[name{p.Code, ""}]
		g := &store.Graph{Pipeline: store.Pipeline{ID: id, Code: p.Code, Name: p.Name, Description: p.Description,
			RefreshType: p.RefreshType, Schedule: p.Schedule, Timezone: p.Timezone, SLAHours: p.SLAHours,
			Notifications: p.Notifications, Active: true, Origin: p.Origin}}
		for _, d := range p.DependsOn {
			up := ids[name{d.Pipeline, ""}]
			g.DependsOn = append(g.DependsOn, store.PipelineEdge{PipelineID: up, PipelineCode: d.Pipeline, PipelineActive: up != 0, Type: d.Type, Match: d.Match})
		}
		for _, t := range p.Tasks {
			task := store.Task{ID: ids[name{p.Code, t.Code}], Code: t.Code, Type: t.Type, PipelineID: id, PipelineCode: p.Code, Handler: t.Handler,
				RunCondition: t.RunCondition, ConditionCount: t.ConditionCount, Params: t.Params, Origin: p.Origin}
			for _, d := range t.DependsOn {
				other := d.Pipeline
				if other == "" {
					other = p.Code
				}
				up := ids[name{other, d.Task}]
				task.DependsOn = append(task.DependsOn, store.TaskEdge{PipelineID: ids[name{other, ""}], PipelineCode: other,
					TaskID: up, TaskCode: d.Task, TaskActive: up != 0, Type: d.Type, Match: d.Match})
			}
			g.Tasks = append(g.Tasks, task)
		}
		graphs[i] = g
	}
	return graphs
}

// Levels of a fault.Problem.
const (
	fail = "FAIL"
	warn = "WARN"
)

var codeRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,127}$`)

// checker collects the problems of graphs.
type checker struct {
	e        *Engine
	env      *handlers.Env
	byID     map[int64]*store.Task  // of all graphs
	graphs   map[int64]*store.Graph // by the pipelines' ids
	problems []fault.Problem
}

// problems finds what is wrong with graphs. all says that these are all active pipelines, so that what concerns several
// of them is looked at too.
func (e *Engine) problems(graphs []*store.Graph, all bool) []fault.Problem {
	c := &checker{e: e, env: e.env(), byID: map[int64]*store.Task{}, graphs: map[int64]*store.Graph{}}
	c.env.Warehouse = nil
	traced := make(chan *lineage, 1)
	if all { // it takes as long as the checks, so it goes on beside them
		go func() { traced <- e.trace(c.env, graphs) }()
	}
	for _, g := range graphs {
		c.graphs[g.Pipeline.ID] = g
		for i := range g.Tasks {
			c.byID[g.Tasks[i].ID] = &g.Tasks[i]
		}
	}
	for _, g := range graphs {
		c.pipeline(g)
		c.taskCycles(g)
		for i := range g.Tasks {
			c.task(g, &g.Tasks[i])
		}
	}
	if all {
		c.pipelineCycles(graphs)
		c.mixedCycles(graphs)
		c.order(graphs, <-traced)
	}
	c.writers(graphs)
	return c.problems
}

func (c *checker) add(level string, code fault.Code, pipeline, task, parameter, hint, format string, args ...any) {
	c.problems = append(c.problems, fault.Problem{Level: level, Code: code, Pipeline: pipeline, Task: task, Parameter: parameter,
		Message: fmt.Sprintf(format, args...), Hint: hint})
}

// concerns adds pipelines to what the last problem is about.
func (c *checker) concerns(pipelines ...string) {
	last := &c.problems[len(c.problems)-1]
	last.Others = append(last.Others, pipelines...)
}

func (c *checker) pipeline(g *store.Graph) {
	p := g.Pipeline
	if !codeRule.MatchString(p.Code) {
		c.add(fail, fault.CodeInvalid, p.Code, "", "", "write a letter, then letters, digits and _, at most 128", "the pipeline code %q cannot be used", p.Code)
	}
	if p.Schedule != "" {
		if err := checkSchedule(p.Schedule); err != nil {
			c.add(fail, fault.ScheduleInvalid, p.Code, "", "schedule", `write five fields such as "0 5 * * *", or @hourly, @daily, @weekly, @monthly`, "the schedule %q cannot be read: %v", p.Schedule, err)
		}
	}
	if p.Timezone != "" {
		if _, err := time.LoadLocation(p.Timezone); err != nil || p.Timezone == "Local" {
			c.add(fail, fault.ScheduleInvalid, p.Code, "", "timezone", "write an IANA name such as UTC or Europe/Vienna", "the timezone %q is not known", p.Timezone)
		}
	}
	c.notifications(p)
	for _, d := range g.DependsOn {
		switch {
		case d.PipelineCode == p.Code:
			c.add(fail, fault.DependencyInvalid, p.Code, "", "", "remove it", "the pipeline depends on itself")
		case !d.PipelineActive:
			c.add(c.absent(d.PipelineID), fault.DependencyInvalid, p.Code, "", "", "remove the dependency, or bring the pipeline back", "the pipeline depends on %s, which is not an active pipeline%s", d.PipelineCode, c.where(d.PipelineID))
		case d.Type == store.OnHasData && c.writesNothing(d.PipelineID):
			c.add(fail, fault.HasDataNoRows, p.Code, "", "", "depend on it with SUCCESS", "the pipeline depends on %s with HAS_DATA, and no task of that pipeline reports rows", d.PipelineCode)
		}
	}
	var both contrary
	for _, d := range g.DependsOn {
		both.add(d.PipelineCode, d.Type)
	}
	if both.excess() > 0 {
		c.add(warn, fault.ConditionUnmet, p.Code, "", "", "depend on one outcome", "the pipeline waits for a run of %s that succeeded and for another one that failed", both.names())
	}
	if c.e.remote() && len(g.DependsOn) > 0 {
		c.add(warn, fault.WrongMode, p.Code, "", "", "let the orchestrator wait for it", "dependencies on pipelines are not judged in orchestration.mode remote")
	}
}

// notifications looks at what a pipeline tells webhooks of. Which ones there are depends on the profile.
func (c *checker) notifications(p store.Pipeline) {
	const example = `write {"NOTIFICATIONS": {"WEBHOOK": ["FAILED", "SUCCESS"]}}, as etl-craft apply does`
	if p.NotificationsError != nil {
		c.add(fail, fault.NotificationInvalid, p.Code, "", "notifications", example, "PIPELINE_PARAMETERS holds notifications that cannot be read: %v", p.NotificationsError)
	}
	var known []string
	for _, w := range c.e.Config.Notifications {
		known = append(known, w.Name)
	}
	for _, webhook := range slices.Sorted(maps.Keys(p.Notifications)) {
		for _, event := range p.Notifications[webhook] {
			if !slices.Contains(config.Events, event) {
				c.add(fail, fault.NotificationInvalid, p.Code, "", "notifications", "known: "+strings.Join(config.Events, ", "), "the webhook %s is to be told of %q, which is no event", webhook, event)
			}
		}
		if slices.Contains(known, webhook) {
			continue
		}
		hint := "add it under notifications in etl-craft.yml"
		if near := nearest.Of(webhook, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.add(warn, fault.NotificationInvalid, p.Code, "", "notifications", hint, "the profile %s has no webhook %s, so that nobody is told", c.e.Config.Profile, webhook)
	}
}

// absent is how bad a dependency on something inactive is. Something that has no id is in no file; the Engine DB may have
// it.
func (c *checker) absent(id int64) string {
	if id == 0 {
		return warn
	}
	return fail
}

func (c *checker) where(id int64) string {
	if id == 0 {
		return " of these files"
	}
	return ""
}

// checkSchedule accepts five fields and macros, without the extensions of the parser that have no meaning here.
func checkSchedule(schedule string) error {
	if strings.HasPrefix(schedule, "@every") || strings.Contains(schedule, "TZ=") {
		return fmt.Errorf("only five fields or a macro are understood")
	}
	fields := strings.Fields(schedule)
	if len(fields) == 5 {
		fields[4] = sundays(fields[4])
	}
	_, err := cron.ParseStandard(strings.Join(fields, " "))
	return err
}

// sundays writes the day of the week 7 as 0, which is all that the parser knows: in 7, 5-7 and 1-7/2.
func sundays(field string) string {
	items := strings.Split(field, ",")
	for i, item := range items {
		days, step, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(days, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.Atoi(from)
		every := 1
		if err == nil && stepped {
			every, err = strconv.Atoi(step)
		}
		if err != nil || to != "7" || first > 7 || every < 1 {
			continue
		}
		var list []string
		for day := first; day <= 7; day += every {
			list = append(list, strconv.Itoa(day%7))
		}
		items[i] = strings.Join(list, ",")
	}
	return strings.Join(items, ",")
}

func (c *checker) task(g *store.Graph, t *store.Task) {
	p := g.Pipeline.Code
	if !codeRule.MatchString(t.Code) {
		c.add(fail, fault.CodeInvalid, p, t.Code, "", "write a letter, then letters, digits and _, at most 128", "the task code %q cannot be used", t.Code)
	}
	c.condition(t)
	for _, d := range t.DependsOn {
		c.edge(g, t, &d)
	}
	h, ok := c.e.handlers[t.Handler]
	if !ok {
		var names []string
		for _, known := range c.e.Handlers {
			names = append(names, known.Name())
		}
		hint := "handlers are " + strings.Join(names, ", ")
		if near := nearest.Of(t.Handler, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.add(fail, fault.HandlerUnknown, p, t.Code, "", hint, "no handler is named %q", t.Handler)
		return
	}
	for _, problem := range h.Check(c.env, handlerTask(g, t)) {
		problem.Pipeline, problem.Task = p, t.Code
		c.problems = append(c.problems, problem)
	}
}

// condition finds a run_condition that no outcome of a task's dependencies meets. A task of another pipeline can have
// failed in one run and succeeded in a later one, so that asking for both is only unlikely to be meant.
func (c *checker) condition(t *store.Task) {
	n := required(t)
	if n > len(t.DependsOn) {
		c.add(fail, fault.ConditionUnmet, t.PipelineCode, t.Code, "", "lower run_condition, or add dependencies", "run_condition asks for %d dependencies and there are %d", n, len(t.DependsOn))
		return
	}
	var own, others contrary
	for _, d := range t.DependsOn {
		if d.PipelineID == t.PipelineID {
			own.add(d.TaskCode, d.Type)
		} else {
			others.add(d.PipelineCode+"."+d.TaskCode, d.Type)
		}
	}
	const hint = "depend on one outcome, or set run_condition to ANY or a lower number"
	if most := len(t.DependsOn) - own.excess(); n > most {
		c.add(fail, fault.ConditionUnmet, t.PipelineCode, t.Code, "", hint, "run_condition asks for %d dependencies and at most %d can hold together, because %s cannot both succeed and fail", n, most, own.names())
		return
	}
	if n > len(t.DependsOn)-own.excess()-others.excess() {
		c.add(warn, fault.ConditionUnmet, t.PipelineCode, t.Code, "", hint, "the task waits for a run in which %s succeeded and for another one in which it failed", others.names())
	}
}

// contrary counts dependencies by what they are on, to find those that one run cannot satisfy together.
type contrary struct {
	order []string
	count map[string]*struct{ success, failure int }
}

func (c *contrary) add(name, on string) {
	if c.count == nil {
		c.count = map[string]*struct{ success, failure int }{}
	}
	n := c.count[name]
	if n == nil {
		n = &struct{ success, failure int }{}
		c.order, c.count[name] = append(c.order, name), n
	}
	switch on {
	case store.OnSuccess, store.OnHasData:
		n.success++
	case store.OnFailure:
		n.failure++
	}
}

// excess is how many dependencies do not hold at best.
func (c *contrary) excess() int {
	total := 0
	for _, n := range c.count {
		total += min(n.success, n.failure)
	}
	return total
}

func (c *contrary) names() string {
	var names []string
	for _, name := range c.order {
		if n := c.count[name]; n.success > 0 && n.failure > 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func handlerTask(g *store.Graph, t *store.Task) *handlers.Task {
	return &handlers.Task{Task: *t, Pipeline: g.Pipeline, Siblings: g.Tasks}
}

func (c *checker) edge(g *store.Graph, t *store.Task, d *store.TaskEdge) {
	p := g.Pipeline.Code
	own := d.PipelineCode == p
	name := d.TaskCode
	if !own {
		name = d.PipelineCode + "." + d.TaskCode
	}
	switch {
	case own && d.TaskCode == t.Code:
		c.add(fail, fault.DependencyInvalid, p, t.Code, "", "remove it", "the task depends on itself")
	case !d.TaskActive && own:
		c.add(fail, fault.DependencyInvalid, p, t.Code, "", "remove the dependency, or bring the task back", "the task depends on %s, which is not an active task", name)
	case !d.TaskActive:
		c.add(c.absent(d.TaskID), fault.DependencyInvalid, p, t.Code, "", "remove the dependency, or bring the task back", "the task depends on %s, which is not an active task%s", name, c.where(d.TaskID))
	}
	if d.Type != store.OnHasData {
		return
	}
	if up := c.byID[d.TaskID]; up != nil && !c.reportsRows(up) {
		c.add(fail, fault.HasDataNoRows, p, t.Code, "", "depend on it with SUCCESS", "the task depends on %s with HAS_DATA, and that task reports no rows", name)
	}
}

// reportsRows also holds for a task whose handler is not known.
func (c *checker) reportsRows(t *store.Task) bool {
	h, ok := c.e.handlers[t.Handler]
	return !ok || h.ReportsRows(&handlers.Task{Task: *t})
}

// writesNothing tells of a pipeline that is known whether no task of it reports rows.
func (c *checker) writesNothing(pipeline int64) bool {
	g := c.graphs[pipeline]
	return g != nil && !slices.ContainsFunc(g.Tasks, func(t store.Task) bool { return c.reportsRows(&t) })
}
