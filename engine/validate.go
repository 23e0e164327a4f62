package engine

import (
	"cmp"
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
