package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/demo"
	"github.com/etl-craft/etl-craft/warehouses"
)

const (
	demoDir     = "etl-craft-demo"
	demoProfile = "demo"
	demoRows    = 100 // of each query
)

// demoDocument is etl-craft/demo/1.
type demoDocument struct {
	Schema  string                `json:"schema"`
	Dir     string                `json:"dir"` // absolute
	Runs    []*engine.RunDocument `json:"runs"`
	Results []demoResult          `json:"results"`
}

// demoResult is the answer to one query; values are text.
type demoResult struct {
	Title   string     `json:"title"`
	SQL     string     `json:"sql"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`

	numbers []bool
}

func (p *program) demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "loads a week of real flights in a new folder and shows the result", ArgsUsage: "[DIR]",
		Description: "etl-craft demo\netl-craft demo flights",
		Action: func(c *cli.Context) error {
			dir := c.Args().First()
			if dir == "" {
				dir = unusedName(demoDir)
			}
			doc, err := p.demo(c, dir)
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return demoText(doc, dir, p.out) }, nil)
		},
	}
}

// unusedName is name, or name-2 and so on when that is taken.
func unusedName(name string) string {
	dir := name
	for n := 2; ; n++ {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			return dir
		}
		dir = fmt.Sprintf("%s-%d", name, n)
	}
}

func (p *program) demo(c *cli.Context, dir string) (*demoDocument, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := demo.Write(dir); err != nil {
		return nil, err
	}
	cfg, err := config.Load(filepath.Join(dir, config.FileName), config.Options{Profile: demoProfile})
	if err != nil {
		return nil, err
	}
	p.progress("wrote the project and its data to %s", dir)
	if _, err := migrate(c.Context, cfg, false, 0); err != nil {
		return nil, err
	}
	doc := &demoDocument{Schema: "etl-craft/demo/1", Dir: dir}
	if doc.Runs, err = p.demoRuns(c, cfg); err != nil {
		return nil, err
	}
	doc.Results, err = demoQueries(c.Context, cfg)
	return doc, err
}

// demoRuns applies the demo's files and runs its days.
func (p *program) demoRuns(c *cli.Context, cfg *config.Config) (runs []*engine.RunDocument, err error) {
	project, err := p.openConfigured(c, cfg, needs{store: true, locker: true, stop: p.interrupts.drain(), quiet: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, project.close()) }()
	if _, err := project.Apply(c.Context, false); err != nil {
		return nil, err
	}
	p.progress("created the Engine DB and applied the pipelines %s", strings.Join(demo.Pipelines(), " and "))
	for _, day := range demo.Days() {
		for _, pipeline := range demo.Pipelines() {
			run, err := project.Run(c.Context, engine.RunRequest{Pipeline: pipeline, RunDate: day})
			if run != nil {
				p.progress("%s", summary(run, p.err))
			}
			if err != nil {
				return nil, err
			}
			runs = append(runs, run)
		}
	}
	return runs, nil
}

func (p *program) progress(format string, args ...any) {
	_ = p.err.print(fmt.Sprintf(format+"\n", args...)) // progress that cannot be shown is no reason to stop
}

// demoQueries reads what the week left in the warehouse.
func demoQueries(ctx context.Context, cfg *config.Config) (results []demoResult, err error) {
	_, open, err := warehouseOf(cfg, nil, false)
	if err != nil {
		return nil, err
	}
	warehouse, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, warehouse.Close()) }()
	session, err := warehouse.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for _, q := range demo.Queries() {
		r := demoResult{Title: q.Title, SQL: q.SQL}
		columns, err := session.Describe(ctx, warehouses.SQL(q.SQL))
		if err != nil {
			return nil, err
		}
		for _, column := range columns {
			r.Columns = append(r.Columns, column.Name)
			r.numbers = append(r.numbers, isNumber(string(column.Type.SQL)))
		}
		if r.Rows, err = session.Rows(ctx, warehouses.SQL(q.SQL), demoRows); err != nil {
			return nil, err
		}
		for _, row := range r.Rows {
			for i, column := range columns {
				if column.Type.SQL == "DATE" {
					row[i], _, _ = strings.Cut(row[i], " ")
				}
			}
		}
		results = append(results, r)
	}
	return results, nil
}

func isNumber(typeName string) bool {
	upper := strings.ToUpper(typeName)
	for _, number := range []string{"INT", "DECIMAL", "DOUBLE", "FLOAT", "NUMERIC", "REAL"} {
		if strings.Contains(upper, number) {
			return true
		}
	}
	return false
}

func demoText(doc *demoDocument, dir string, s *screen) string {
	var b strings.Builder
	heading := func(t string) { fmt.Fprintf(&b, "\n%s\n\n", s.paint(text.Bold, t)) }
	heading(fmt.Sprintf("What %d runs did, task by task", len(doc.Runs)))
	b.WriteString(demoTasks(doc.Runs, s))
	for _, r := range doc.Results {
		heading(r.Title)
		headings := make([]string, len(r.Columns))
		for i, name := range r.Columns {
			headings[i] = name
			if r.numbers[i] {
				headings[i] = number + name
			}
		}
		b.WriteString(s.table(headings, r.Rows))
	}
	heading("Try next")
	last := doc.Runs[len(doc.Runs)-1]
	commands := []string{
		enter(dir),
		"etl-craft plan --pipeline " + last.Pipeline,
		"etl-craft history --pipeline " + last.Pipeline,
		"etl-craft graph --pipeline " + last.Pipeline,
	}
	for _, code := range demo.Pipelines() {
		commands = append(commands, fmt.Sprintf("etl-craft run --pipeline %s --run-date %s", code, last.RunDate))
	}
	b.WriteString(commandLines(commands...))
	return b.String()
}

// demoTasks adds up what each task did in all runs; its target is as the last run left it.
func demoTasks(runs []*engine.RunDocument, s *screen) string {
	type total struct {
		pipeline               string
		last                   engine.TaskDocument
		inserts, updates, dels *int64
	}
	var totals []*total
	byTask := map[string]*total{}
	for _, run := range runs {
		for _, t := range run.Tasks {
			sum := byTask[run.Pipeline+"."+t.Task]
			if sum == nil {
				sum = &total{pipeline: run.Pipeline}
				byTask[run.Pipeline+"."+t.Task] = sum
				totals = append(totals, sum)
			}
			sum.last = t
			sum.inserts, sum.updates, sum.dels = plus(sum.inserts, t.InsertCount), plus(sum.updates, t.UpdateCount), plus(sum.dels, t.DeleteCount)
		}
	}
	var rows [][]string
	for _, sum := range totals {
		target := ""
		if sum.last.Target != nil {
			target = *sum.last.Target
			if parts := strings.Split(target, "."); len(parts) == 3 {
				target = parts[1] + "." + parts[2]
			}
		}
		rows = append(rows, []string{
			sum.pipeline, sum.last.Task, orDash(sum.last.Action), target, countText(sum.inserts), countText(sum.updates),
			countText(sum.dels), countText(sum.last.TargetCount),
		})
	}
	return s.table([]string{"PIPELINE", "TASK", "ACTION", "TARGET", number + "INSERTED", number + "UPDATED", number + "DELETED", number + "ROWS NOW"}, rows)
}

func plus(sum, n *int64) *int64 {
	if n == nil {
		return sum
	}
	if sum == nil {
		sum = new(int64)
	}
	*sum += *n
	return sum
}
