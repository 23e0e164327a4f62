package warehousetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

const (
	pipelineID = 3
	runID      = 97
)

var schemaNumber atomic.Int64

// bench is a schema of its own with one target "t", the handler to write it and the reference to compare it with.
type bench struct {
	*testing.T
	env     *handlers.Env
	backend Backend
	session warehouses.Session
	schema  string
	user    string
	record  store.TargetRecord // what an Engine DB would know of the target
	oracle  Oracle
	history []string
	sibling string // status of the task that creates the target

	nextTaskRun int64
	clock       time.Time
	before      map[string]string // CREATE_DATE of the rows of the last look, by ROW_ID
	gone        map[string]bool   // row_ids that are no more
}

func newBench(t *testing.T, env *handlers.Env, backend Backend) *bench {
	own := *env
	number := schemaNumber.Add(1)
	// Task runs of their own: an emulator may take temporary tables of one name in two sessions for one.
	b := &bench{T: t, env: &own, backend: backend, nextTaskRun: 1000 * number, sibling: store.Success, gone: map[string]bool{},
		clock:  time.Date(2026, 9, 1, 12, 0, 0, 1000, time.UTC),
		schema: fmt.Sprintf("wt_%x_%d", time.Now().Unix(), number)}
	own.TargetRecord = func(context.Context, store.TargetName) (store.TargetRecord, error) { return b.record, nil }
	var err error
	if b.session, err = own.Warehouse.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.user, own.Database = b.session.Facts().User, b.session.Facts().Database
	b.exec("CREATE SCHEMA " + b.schema)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("history:\n" + strings.Join(b.history, "\n"))
		}
		b.checkScratch()
		b.dropSchema(b.schema)
		if err := b.session.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// dropSchema drops a schema and all tables in it.
func (b *bench) dropSchema(name string) {
	statements := []string{"DROP SCHEMA " + name + " CASCADE"}
	if b.backend.NoCascade {
		tables, err := b.session.Rows(context.Background(), warehouses.SQL("SELECT table_name FROM information_schema.tables WHERE table_schema = '"+name+"'"), 100)
		if err != nil {
			b.Error(err)
		}
		statements = []string{"DROP SCHEMA " + name}
		for _, t := range tables {
			statements = append([]string{"DROP TABLE IF EXISTS " + name + "." + b.ident(t[0])}, statements...)
		}
	}
	for _, s := range statements {
		if _, err := b.session.Exec(context.Background(), warehouses.SQL(s)); err != nil {
			b.Error(err)
		}
	}
}

// checkScratch finds scratch tables that were left behind.
func (b *bench) checkScratch() {
	d := b.env.Dialect
	query := d.Render("left_tables", warehouses.LeftNames{Database: d.Text(b.session.Facts().Database), Schema: d.Text(d.FoldName(b.schema))})
	left, err := b.session.Rows(context.Background(), query, 10)
	if err != nil {
		b.Error(err)
	}
	if len(left) > 0 {
		b.Errorf("left behind: %v", left)
	}
}

func (b *bench) exec(statement string) {
	b.Helper()
	b.history = append(b.history, statement)
	if _, err := b.session.Exec(b.Context(), warehouses.SQL(statement)); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

func (b *bench) target() string { return b.schema + ".t" }

// request fills in what an attempt of a new task run stamps.
func (b *bench) request(q Request) Request {
	b.nextTaskRun++
	q.PipelineID, q.RunID, q.TaskRun, q.User = pipelineID, runID, b.nextTaskRun, b.user
	return b.retry(q)
}

// retry is another attempt of the same task run.
func (b *bench) retry(q Request) Request {
	b.clock = b.clock.Add(time.Minute + time.Microsecond)
	q.Instant = b.clock.Format("2006-01-02T15:04:05.000000")
	return q
}

// attempted is what an attempt leaves in the Engine DB.
type attempted struct {
	store.Attempt
	truth   bool // it committed
	settled bool // a later attempt found out
}

// outcome is what a run of the handler gave.
type outcome struct {
	result  handlers.Result
	err     error
	attempt *attempted
}

var errLost = errors.New("the process was lost before the commit")

// attempt runs the handler once. lost makes it fail between the record of its commit and the commit itself.
func (b *bench) attempt(q Request, params map[string]string, earlier []*attempted, lost bool) outcome {
	b.history = append(b.history, fmt.Sprintf("-- task run %d, attempt %d, lost %t: %v", q.TaskRun, len(earlier)+1, lost, params))
	instant, err := time.Parse("2006-01-02T15:04:05.000000", q.Instant)
	if err != nil {
		b.Fatal(err)
	}
	task := store.Task{ID: 11, Code: "task", Handler: "SQL", Params: params}
	siblings := []store.Task{task}
	switch {
	case q.Action == "SETUP_TABLE" && len(q.Compare) > 0:
		siblings = append(siblings, b.siblingTask(q.SetupFor, map[string]string{"MERGE_COMPARE_COLUMNS": strings.Join(q.Compare, "|")}))
	case q.Action == "DROP_TABLE":
		siblings = append(siblings, b.siblingTask("CREATE_TABLE", nil))
	}
	me := &attempted{Attempt: store.Attempt{ID: int64(len(earlier) + 1), TaskRunID: q.TaskRun, Number: len(earlier) + 1,
		Status: store.Lost, Phase: store.PhaseStarted, Instant: &instant}}
	a := &handlers.Attempt{
		Task:          handlers.Task{Task: task, Pipeline: store.Pipeline{ID: q.PipelineID, Code: "P", RefreshType: "INCREMENTAL"}, Siblings: siblings},
		PipelineRunID: q.RunID, TaskRunID: q.TaskRun, AttemptID: me.ID, Number: me.Number,
		RunDate: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), Instant: instant, Token: fmt.Sprintf("%04x", me.Number),
		Statuses: func(context.Context) (map[string]string, error) { return map[string]string{"sibling": b.sibling}, nil },
		Log:      slog.New(slog.DiscardHandler),
		Hold:     func(context.Context, locks.Key, locks.Holder) error { return nil },
		SavePlan: func(*warehouses.Plan, string) error { return nil },
		Report:   func(string) {},
		Settle: func(_ context.Context, e store.Attempt, committed bool) error {
			was := earlier[e.Number-1]
			if committed != was.truth && !(was.truth && zero(e.Planned.Written)) {
				b.Errorf("attempt %d: settled as committed=%t, it is %t", e.Number, committed, was.truth)
			}
			was.Committed, was.settled = &committed, true
			return nil
		},
		Advance: func(_ context.Context, p store.Progress) error {
			me.Phase, me.Planned, me.Witness = p.Phase, p.Planned, p.Witness
			b.record.Known = true
			if p.HashVersion != 0 {
				b.record.HashVersion, b.record.CompareColumns = p.HashVersion, p.CompareColumns
			}
			if lost {
				return errLost
			}
			if w, ok := b.env.Warehouse.(*conflicting); ok {
				w.armed = true
			}
			return nil
		},
	}
	for _, e := range earlier {
		a.Earlier = append(a.Earlier, e.Attempt)
	}
	result, err := sql.Handler{}.Run(b.Context(), b.env, a)
	me.truth = err == nil
	if result.ForgetTarget != nil {
		b.record.HashVersion, b.record.CompareColumns = 0, ""
	}
	return outcome{result, err, me}
}

func zero(n *int64) bool { return n == nil || *n == 0 }

func (b *bench) siblingTask(action string, more map[string]string) store.Task {
	params := map[string]string{"SQL_ACTION": action, "TARGET_OBJECT": b.target()}
	maps.Copy(params, more)
	return store.Task{ID: 12, Code: "sibling", Handler: "SQL", Params: params}
}

// apply runs a request in handler and reference and compares everything. It returns the failure that both gave.
func (b *bench) apply(q Request) string {
	b.Helper()
	return b.applyWith(q, nil)
}

// applyWith is apply with some parameters written another way.
func (b *bench) applyWith(q Request, more map[string]string) string {
	b.Helper()
	q = b.request(q)
	want, code := b.oracle.Apply(q)
	params := b.params(q)
	maps.Copy(params, more)
	got := b.attempt(q, params, nil, false)
	b.expect(got, want, want, code)
	b.look()
	return code
}

// refused runs a request that must fail with code and leave the target as it is.
func (b *bench) refused(code string, q Request, more map[string]string) {
	b.Helper()
	q = b.request(q)
	params := b.params(q)
	maps.Copy(params, more)
	got := b.attempt(q, params, nil, false)
	b.expect(got, Counts{}, Counts{}, code)
	alone := !b.env.Dialect.Transactional && code == "STATEMENT_FAILED" // of which the record is made before it is sent
	if got.attempt.Phase != store.PhaseStarted && !alone {
		b.Errorf("%s: the attempt got as far as %s", code, got.attempt.Phase)
	}
	b.look()
}

// must is apply of a request that must succeed.
func (b *bench) must(q Request) {
	b.Helper()
	if code := b.apply(q); code != "" {
		b.Fatalf("the reference refuses %s with %s", q.Action, code)
	}
}

// expect compares error and counts: those of the attempt and those of its task run.
func (b *bench) expect(got outcome, want, wantTask Counts, code string) {
	b.Helper()
	if code != "" {
		if got.err == nil || !fault.Has(got.err, fault.Code(code)) {
			b.Fatalf("want failure %s, got: %v", code, got.err)
		}
		return
	}
	if got.err != nil {
		b.Fatalf("%v\n%s", got.err, fault.As(got.err).SQL)
	}
	if !b.env.CountTarget {
		want.Target, wantTask.Target = nil, nil
	}
	if g, w := shown(got.result.Counts), shownCounts(want); g != w {
		b.Errorf("counts of the attempt: %s, want %s", g, w)
	}
	if g, w := shown(got.result.TaskCounts), shownCounts(wantTask); g != w {
		b.Errorf("counts of the task run: %s, want %s", g, w)
	}
}

func shown(c store.Counts) string {
	return shownCounts(Counts{c.Source, c.Target, c.Insert, c.Update, c.Delete, c.Written})
}

func shownCounts(c Counts) string {
	var parts []string
	for _, f := range []struct {
		name string
		n    *int64
	}{{"source", c.Source}, {"target", c.Target}, {"insert", c.Insert}, {"update", c.Update}, {"delete", c.Delete}, {"written", c.Written}} {
		if f.n == nil {
			parts = append(parts, f.name+"=NULL")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%d", f.name, *f.n))
	}
	return strings.Join(parts, " ")
}

// params writes a request as a task's parameters.
func (b *bench) params(q Request) map[string]string {
	p := map[string]string{"SQL_ACTION": q.Action, "TARGET_OBJECT": b.target()}
	if q.Action == "DROP_TABLE" {
		return p
	}
	p["SOURCE_SQL"] = b.selectRows(q.Columns, q.Rows)
	if q.Action == "SETUP_TABLE" {
		if len(q.Compare) == 0 {
			p["SETUP_FOR"] = q.SetupFor
		}
		return p
	}
	set := func(name, value string, on bool) {
		if on {
			p[name] = value
		}
	}
	merge := q.Action == "SCD1_MERGE" || q.Action == "SCD2_MERGE"
	set("MERGE_KEY", strings.Join(q.Keys, "|"), len(q.Keys) > 0)
	set("MERGE_COMPARE_COLUMNS", strings.Join(q.Compare, "|"), merge)
	set("MERGE_DEDUPE_ORDER", orderText(q.Order), len(q.Order) > 0)
	set("SCHEMA_EVOLUTION", "true", q.Evolve)
	set("PRESERVE_TARGET", "true", q.Preserve)
	set("HARD_DELETE", "true", q.Hard)
	return p
}

func orderText(order []OrderTerm) string {
	var terms []string
	for _, o := range order {
		s := o.Column
		if o.Descending {
			s += " DESC"
		}
		if o.NullsFirst {
			s += " NULLS FIRST"
		}
		terms = append(terms, s)
	}
	return strings.Join(terms, ", ")
}

// selectRows is a SELECT that returns the rows, also when there are none.
func (b *bench) selectRows(columns []Column, rows []Row) string {
	one := func(r Row, end string) string {
		var values []string
		for _, c := range columns {
			values = append(values, b.literal(c, r[c.Name])+" AS "+b.ident(c.Name))
		}
		return "SELECT " + strings.Join(values, ", ") + end
	}
	if len(rows) == 0 {
		return one(Row{}, " WHERE 1 = 0")
	}
	var selects []string
	for _, r := range rows {
		selects = append(selects, one(r, ""))
	}
	return strings.Join(selects, "\nUNION ALL ")
}

func (b *bench) ident(name string) string {
	return string(b.env.Dialect.Ident(b.env.Dialect.FoldName(name)))
}

// typ is the warehouse's name of a type.
func (b *bench) typ(name string) string {
	if own := b.backend.Types[name]; own != "" {
		return own
	}
	return name
}

// literal is a value as the warehouse reads it.
func (b *bench) literal(c Column, v *string) string {
	typ := b.typ(c.Type)
	if v == nil {
		return "CAST(NULL AS " + typ + ")"
	}
	value := *v
	if b.backend.Text != nil {
		value = b.backend.Text(c.Kind, value)
	}
	return "CAST(" + string(b.env.Dialect.Text(value)) + " AS " + typ + ")"
}

// insert puts rows into the target behind the engine's back.
func (b *bench) insert(rows ...Row) {
	b.Helper()
	name := warehouses.QualifiedName{Database: b.session.Facts().Database, Schema: b.env.Dialect.FoldName(b.schema), Table: b.env.Dialect.FoldName("t")}
	table, err := b.session.Table(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range rows {
		var names, values []string
		for _, c := range b.oracle.Table.Columns {
			if c.Name == "row_id" {
				continue
			}
			if c.Type == "" {
				c.Type = map[Kind]string{"int": "BIGINT", "text": "VARCHAR", "timestamptz": "TIMESTAMP WITH TIME ZONE"}[c.Kind]
			}
			v := r[c.Name]
			if v != nil && c.Kind == "timestamptz" {
				v = text(*v + "+00")
			}
			names, values = append(names, b.ident(c.Name)), append(values, b.literal(c, v))
		}
		from := ""
		if table.Column("row_id").Generator == "" { // an outsider has to number the row
			names, values = append(names, b.ident("row_id")), append(values, "coalesce(max(row_id), 0) + 1")
			from = " FROM " + b.target()
		}
		b.exec("INSERT INTO " + b.target() + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") + from)
		b.oracle.Table.Rows = append(b.oracle.Table.Rows, r)
	}
	b.look()
}
