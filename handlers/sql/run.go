package sql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// goneWitness is the witness of a hard delete: a row that is there no more.
const goneWitness = "row_id=%d"

// conflictTries is how often an action is done again when parallel transactions of one warehouse collide.
const conflictTries = 5

// Run implements handlers.Handler.
func (Handler) Run(ctx context.Context, env *handlers.Env, a *handlers.Attempt) (handlers.Result, error) {
	sp, err := parsed(env, &a.Task)
	if err != nil {
		return handlers.Result{}, err
	}
	ctx = warehouses.WithOrigin(ctx, a.PipelineRunID, a.TaskRunID, "inspect")
	facts, err := env.Warehouse.Facts(ctx)
	if err != nil {
		return handlers.Result{}, sp.wrap(err)
	}
	if sp.Target.Database == "" {
		sp.Target.Database = facts.Database
	}
	log := a.Log.With("logger", "etl_craft.handlers.sql")
	log.Info(fmt.Sprintf("%s on %s", sp, env.Dialect.Product))
	if sp.Action == DropTable {
		if err := checkDrop(ctx, env, a, sp); err != nil {
			return handlers.Result{}, sp.wrap(err)
		}
	}
	if err := a.Hold(ctx, locks.TargetKey(facts.Identity, sp.Target.Key()), locks.Holder{What: "target " + sp.Target.String()}); err != nil {
		return handlers.Result{}, sp.wrap(err)
	}
	r := &run{env: env, a: a, sp: sp, log: a.Log.With("logger", "etl_craft.handlers.sql.session")}
	result, err := backoff.Retry(ctx, func() (handlers.Result, error) {
		result, err := r.once(ctx)
		if err != nil && !fault.Has(err, fault.WriteConflict) {
			return result, backoff.Permanent(err)
		}
		if err != nil {
			log.Warn("parallel transactions collided, the action starts again: " + fault.As(err).Message)
		}
		return result, err
	}, backoff.WithMaxTries(conflictTries), backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second}))
	return result, sp.wrap(err)
}

// checkDrop lets DROP_TABLE drop only what this run's CREATE_TABLE of this pipeline made.
func checkDrop(ctx context.Context, env *handlers.Env, a *handlers.Attempt, sp *spec) error {
	statuses, err := a.Statuses(ctx)
	if err != nil {
		return err
	}
	var seen []string
	for _, s := range siblings(env, &a.Task, sp.Target) {
		if s.action != CreateTable {
			continue
		}
		if statuses[s.code] == store.Success {
			return nil
		}
		seen = append(seen, s.code+" is "+statuses[s.code])
	}
	return refuse(fault.DropRefused, "let the DROP_TABLE task depend on the CREATE_TABLE task", "the table is dropped only after this run's CREATE_TABLE task for it has succeeded: %s", strings.Join(seen, ", "))
}

// run is one attempt under way.
type run struct {
	env     *handlers.Env
	a       *handlers.Attempt
	sp      *spec
	log     *slog.Logger
	session warehouses.Session
	in      *inspection
	planned *warehouses.Plan
	sent    bool // what commits was sent, in a try that met a conflict
}

// once does the whole action: what earlier attempts left, inspection, plan, execution.
func (r *run) once(ctx context.Context) (handlers.Result, error) {
	s, err := r.env.Warehouse.Session(ctx)
	if err != nil {
		return handlers.Result{}, err
	}
	defer func() { _ = s.Close() }()
	r.session = s
	source := ""
	if r.sp.Select != nil {
		source, err = r.sp.Select.Substitute(tokens(r.sp, r.a.Pipeline, fmt.Sprint(r.a.PipelineRunID), fmt.Sprint(r.a.TaskRunID), warehouses.Date(r.a.RunDate)))
		if err != nil {
			return handlers.Result{}, err
		}
	}
	if err := r.awaitFence(ctx); err != nil {
		return handlers.Result{}, err
	}
	if r.in, err = inspect(ctx, r.env, s, r.sp, source); err != nil {
		return handlers.Result{}, err
	}
	r.in.source = warehouses.SQL(source)
	if r.in.left, err = r.leftScratch(ctx); err != nil {
		return handlers.Result{}, err
	}
	if err := r.checkIDs(ctx); err != nil {
		return handlers.Result{}, err
	}
	earlier, err := r.settle(ctx)
	if err != nil {
		return handlers.Result{}, err
	}
	first := !r.sent && !slices.ContainsFunc(r.a.Earlier, func(e store.Attempt) bool { return e.Phase != store.PhaseStarted })
	r.planned, err = newPlanner(r.env, r.sp, r.in, r.stamps(), first).build()
	if err != nil {
		return handlers.Result{}, err
	}
	for _, n := range r.planned.Notes {
		r.log.Info(n)
	}
	if err := r.a.SavePlan(r.planned, hash(source)); err != nil {
		return handlers.Result{}, err
	}
	res, err := warehouses.Execute(ctx, s, r.planned, warehouses.Hooks{Started: r.started, Done: r.done, BeforeCommit: r.beforeCommit})
	if err != nil {
		return handlers.Result{}, err
	}
	if r.sp.Action == SetupTable && r.in.table != nil && r.recordsHash() { // nothing was committed, which would have recorded it
		if err := r.beforeCommit(ctx, res); err != nil {
			return handlers.Result{}, err
		}
	}
	return r.result(res, earlier), nil
}

// leftScratch finds the scratch tables that earlier attempts of this task run left beside the target.
func (r *run) leftScratch(ctx context.Context) ([]string, error) {
	d := r.env.Dialect
	if d.TempTables || len(r.a.Earlier) == 0 || r.in.table == nil && !r.in.schema {
		return nil, nil
	}
	rows, err := r.session.Rows(ctx, d.Render("left_tables", warehouses.LeftNames{Database: d.Text(r.in.target.Database), Schema: d.Text(r.in.target.Schema)}), math.MaxInt)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, row := range rows {
		for _, kind := range []string{"stage", "change", "new"} {
			if strings.HasPrefix(row[0], fmt.Sprintf("etl_%s_%d_", kind, r.a.TaskRunID)) {
				left = append(left, row[0])
			}
		}
	}
	return left, nil
}

// watchPoll is how often a statement that an earlier attempt left is looked after.
const watchPoll = 500 * time.Millisecond

// awaitStatements waits until the server works on no statement of an earlier attempt of this task run. The process that sent
// it may be dead, or asleep.
func (r *run) awaitStatements(ctx context.Context) error {
	if !r.env.Dialect.Watches || r.a == nil || len(r.a.Earlier) == 0 {
		return nil
	}
	query := r.env.Dialect.Render("running_statements", frame{TaskRunID: warehouses.Int(r.a.TaskRunID)})
	for told := false; ; told = true {
		n, err := r.session.Int(ctx, query)
		if err != nil || n == 0 {
			return err
		}
		if !told {
			r.log.Info(fmt.Sprintf("waits for %d statement(s) of an earlier attempt, which %s still works on", n, r.env.Dialect.Product))
		}
		select {
		case <-time.After(watchPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitFence waits until no process that has lost the target's lock can still commit. Whatever is read before that, the
// target's shape as well as the witness of an earlier attempt, may change afterwards. Outside a transaction the fence is
// free again at once.
func (r *run) awaitFence(ctx context.Context) error {
	d := r.env.Dialect
	if !d.Fences {
		return r.awaitStatements(ctx)
	}
	target := r.sp.Target
	target.Database = r.session.Facts().Database
	key := locks.FenceKey(r.session.Facts().Identity, target.Key())
	_, err := r.session.Exec(ctx, d.Render("fence", frame{Key: warehouses.Int(key.Int64())}))
	return err
}

func (r *run) stamps() stamps {
	return stamps{
		pipelineID: warehouses.Int(r.a.Pipeline.ID), pipelineRunID: warehouses.Int(r.a.PipelineRunID), taskRunID: warehouses.Int(r.a.TaskRunID),
		instant: r.env.Dialect.Instant(r.a.Instant), user: r.env.Dialect.Text(r.in.facts.User),
		scratch: fmt.Sprintf("%d_%s", r.a.TaskRunID, r.a.Token),
	}
}

// checkIDs refuses a target that another Engine DB has written with the ids that this one is about to give out. It
// looks only at the first meeting.
func (r *run) checkIDs(ctx context.Context) error {
	if r.in.record.Known || r.in.table == nil || r.in.table.Column(taskRunID) == nil {
		return nil
	}
	highest, err := r.session.Int(ctx, r.env.Dialect.Render("highest_id", frame{Target: r.env.Dialect.Table(r.in.target)}))
	if err != nil {
		return err
	}
	if highest < r.a.TaskRunID {
		return nil
	}
	return refuse(fault.IDReused, fmt.Sprintf("etl-craft migrate --ids-above %d, then run the pipeline again", highest),
		"the target holds rows of task run %d, written through another Engine DB, and this task run is %d", highest, r.a.TaskRunID)
}

// settle finds out whether earlier attempts of this task run had committed, and adds up what those did.
func (r *run) settle(ctx context.Context) (store.Counts, error) {
	var sum store.Counts
	if !settles(r.sp.Action) {
		return sum, nil
	}
	for _, e := range r.a.Earlier {
		if e.Status == store.Success { // somebody asked for the task again; what it did then is not this time's work
			sum = store.Counts{}
			continue
		}
		if e.Phase != store.PhaseCommitting {
			continue
		}
		if e.Committed == nil {
			committed, err := r.committed(ctx, e)
			if err != nil {
				return sum, err
			}
			if err := r.a.Settle(ctx, e, committed); err != nil {
				return sum, err
			}
			e.Committed = &committed
			r.log.Info(fmt.Sprintf("attempt %d had committed: %t", e.Number, committed))
		}
		if *e.Committed {
			sum.Insert = plus(sum.Insert, e.Planned.Insert)
			sum.Update = plus(sum.Update, e.Planned.Update)
			sum.Delete = plus(sum.Delete, e.Planned.Delete)
		}
	}
	return sum, nil
}

// committed looks in the warehouse for the witness of an attempt whose commit has an unknown outcome.
func (r *run) committed(ctx context.Context, e store.Attempt) (bool, error) {
	d := r.env.Dialect
	target := d.Table(r.in.target)
	if value(e.Planned.Written) == 0 || r.sp.Hard && e.Witness == "" { // a hard delete without ROW_ID leaves no trace
		return false, nil
	}
	if row, ok := strings.CutPrefix(e.Witness, "row_id="); ok {
		id, err := strconv.ParseInt(row, 10, 64)
		if err != nil {
			return false, fmt.Errorf("witness %q of attempt %d: %w", e.Witness, e.Number, err)
		}
		n, err := r.session.Int(ctx, d.Render("row_exists", frame{Target: target, Key: warehouses.Int(id)}))
		return n == 0, err
	}
	n, err := r.session.Int(ctx, d.Render("rows_of_attempt", frame{Target: target, TaskRunID: warehouses.Int(r.a.TaskRunID), Key: d.Instant(*e.Instant)}))
	return n > 0, err
}

func (r *run) started(step warehouses.Step) {
	r.a.Report(step.Name)
	r.log.Debug(step.Name, "sql", string(step.SQL))
}

func (r *run) done(step warehouses.Step, rows int64, took time.Duration) {
	switch {
	case step.Counts != "" || step.Guard != nil:
		r.log.Info(fmt.Sprintf("%s = %d", step.Name, rows))
	case rows >= 0:
		r.log.Info(fmt.Sprintf("%s: %d row(s) (%.2fs)", step.Name, rows, took.Seconds()))
	default:
		r.log.Info(fmt.Sprintf("%s (%.2fs)", step.Name, took.Seconds()))
	}
}

// beforeCommit makes durable what the commit is about to do.
func (r *run) beforeCommit(ctx context.Context, so warehouses.Results) error {
	r.sent = true
	p := store.Progress{Phase: store.PhaseCommitting, Planned: r.counts(so), Witness: so.Witness, Target: r.in.name()}
	if r.recordsHash() {
		p.HashVersion, p.CompareColumns = HashVersionNow, r.sp.compareList()
	}
	return r.a.Advance(ctx, p)
}

// recordsHash reports whether this attempt makes the first hashed rows of its target, or the table for them, or finds it
// empty.
func (r *run) recordsHash() bool {
	switch r.sp.Action {
	case SCD1Merge, SCD2Merge:
		return r.in.empty
	case SetupTable:
		if len(r.sp.Compare) == 0 || r.in.table == nil {
			return len(r.sp.Compare) > 0
		}
		return r.in.empty && r.in.table.Column(hashKey) != nil
	}
	return false
}

// counts are the numbers of this attempt, as far as the steps have yielded them.
func (r *run) counts(so warehouses.Results) store.Counts {
	get := func(c warehouses.Count) *int64 {
		n, ok := so.Counts[c]
		if !ok {
			return nil
		}
		return &n
	}
	c := store.Counts{Source: get(warehouses.SourceCount), Target: get(warehouses.TargetCount), Insert: get(warehouses.InsertCount),
		Update: get(warehouses.UpdateCount), Delete: get(warehouses.DeleteCount)}
	if r.sp.Action != SetupTable && r.sp.Action != DropTable {
		c.Insert, c.Update, c.Delete = orZero(c.Insert), orZero(c.Update), orZero(c.Delete)
	}
	written := value(c.Insert) + value(c.Update) + value(c.Delete)
	c.Written = &written
	return c
}

func (r *run) result(res warehouses.Results, earlier store.Counts) handlers.Result {
	out := handlers.Result{Counts: r.counts(res)}
	out.TaskCounts = out.Counts
	if settles(r.sp.Action) {
		out.TaskCounts.Insert = plus(out.Counts.Insert, earlier.Insert)
		out.TaskCounts.Update = plus(out.Counts.Update, earlier.Update)
		out.TaskCounts.Delete = plus(out.Counts.Delete, earlier.Delete)
		written := value(out.TaskCounts.Insert) + value(out.TaskCounts.Update) + value(out.TaskCounts.Delete)
		out.TaskCounts.Written = &written
	}
	if r.sp.Action == CreateTable || r.sp.Action == DropTable {
		name := r.in.name()
		out.ForgetTarget = &name
	}
	return out
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func orZero(n *int64) *int64 {
	v := value(n)
	return &v
}

func plus(a, b *int64) *int64 {
	sum := value(a) + value(b)
	return &sum
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
