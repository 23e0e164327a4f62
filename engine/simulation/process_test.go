package simulation_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// world is one case: an Engine DB, a lock service, a warehouse, and the processes that work with them.
type world struct {
	seed      uint64
	db        *database
	config    *config.Config
	log       slog.Handler // of the engines, nil for silence
	began     time.Time
	processes []*process

	mu        sync.Mutex
	held      map[locks.Key]*lock
	events    []event
	executing map[int64][]*execution // by task run
	committed map[int64]bool         // attempts whose rows are in the warehouse
}

// event is something that happened outside of the Engine DB, after transaction tx.
type event struct {
	tx   int
	at   time.Time
	by   *process
	what string // "executes", "commits", "ends", or what became of a process
	run  int64  // task run
	x    *execution
	with []*execution // that were executing the same task run
}

// happened keeps an event.
func (w *world) happened(e event) {
	w.db.busy.Lock()
	e.tx = len(w.db.txs) - 1
	w.db.busy.Unlock()
	e.at = time.Now()
	w.events = append(w.events, e)
}

// draw is a number that depends on the case and on what it is for, and on nothing else.
func (w *world) draw(what string, n ...int64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	for _, v := range n {
		_ = binary.Write(h, binary.LittleEndian, v)
	}
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// between is a time from a to b, exact to the nanosecond, so that no two things happen at once.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// command is what a process is started with.
type command struct {
	run      *engine.RunRequest
	operator string // resume, pause, cancel, skip, mark or reconcile
	request  engine.OperatorRequest
	newest   bool // of the pipeline's newest run, whatever its id is
}

func (c command) String() string {
	if c.run == nil {
		text := c.operator + " " + c.request.Pipeline
		for _, more := range []struct{ name, value string }{{"--task", c.request.Task}, {"--status", c.request.Status}} {
			if more.value != "" {
				text += " " + more.name + " " + more.value
			}
		}
		if c.request.NewRun {
			text += " --new-run"
		}
		if c.newest {
			text += " of the newest run"
		}
		return text
	}
	text := "run " + c.run.Pipeline
	for _, more := range []struct {
		set  bool
		text string
	}{{c.run.Task != "", "--task " + c.run.Task}, {c.run.Force, "--force"}, {c.run.Rerun, "--rerun"}, {c.run.WithDownstream, "--with-downstream"},
		{c.run.IgnoreDependencies, "--ignore-dependencies"}, {c.run.Backfill != "", "--backfill " + c.run.Backfill},
		{c.run.RunDate != "", "--run-date " + c.run.RunDate}, {c.newest, "of the newest run"}, {c.run.RunID != 0, fmt.Sprint("--run-id ", c.run.RunID)}} {
		if more.set {
			text += " " + more.text
		}
	}
	return text
}

// fate is what befalls a process. A time counts from its start, 0 is never.
type fate struct {
	dieAt       time.Duration
	dieAtOp     int    // at this arrival at the Engine DB
	dieHow      string // before, within or after it
	stopAt      time.Duration
	cancelAt    time.Duration
	freezeAt    time.Duration
	freezeFor   time.Duration
	loseLocks   time.Duration
	warehouse   time.Duration // that the warehouse takes to answer
	noWarehouse bool
}

// process is an engine with a command, a Store and locks of its own.
type process struct {
	w       *world
	name    string
	command command
	fate    fate
	stop    chan struct{}
	dead    chan struct{}
	done    chan struct{}
	cancel  context.CancelFunc
	err     error

	cancelled bool

	mu       sync.Mutex
	died     bool
	thaw     chan struct{} // not nil while it is frozen
	fallen   time.Time     // when it froze or lost its locks first: others may take it for dead since
	gone     time.Time     // when it died or ended
	frozen   []span
	arrivals int
	within   bool // it dies in the transaction that it has begun
	after    bool // it dies when it has committed
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.died
}

// die ends the process here and now: nothing of it reaches the Engine DB, a lock or the warehouse any more.
func (p *process) die(how string) {
	p.mu.Lock()
	if p.died {
		p.mu.Unlock()
		return
	}
	p.died, p.gone = true, time.Now()
	close(p.dead)
	p.mu.Unlock()
	p.w.freeLocks(p)
	p.w.mu.Lock()
	for run, list := range p.w.executing {
		p.w.executing[run] = without(list, p)
	}
	p.w.mu.Unlock()
	p.w.fell(p, "dies "+how)
	p.cancel() // so that what is left of it in memory goes
}

func without(list []*execution, p *process) []*execution {
	var left []*execution
	for _, x := range list {
		if x.p != p {
			left = append(left, x)
		}
	}
	return left
}

// freeze stops the process for a while, as SIGSTOP does. Its locks stay.
func (p *process) freeze(d time.Duration) {
	p.mu.Lock()
	thaw := make(chan struct{})
	now := time.Now()
	p.thaw = thaw
	p.falls(now)
	p.frozen = append(p.frozen, span{now, now.Add(d)})
	p.mu.Unlock()
	p.w.fell(p, "freezes")
	time.AfterFunc(d, func() {
		p.mu.Lock()
		p.thaw = nil
		p.mu.Unlock()
		p.w.fell(p, "thaws")
		close(thaw)
	})
}

func (p *process) falls(at time.Time) {
	if p.fallen.IsZero() {
		p.fallen = at
	}
}

// fellBefore reports whether others may have taken the process for dead.
func (p *process) fellBefore(at time.Time) bool { return !p.fallen.IsZero() && p.fallen.Before(at) }

// goneBefore reports whether the process was gone, or others may have taken it for dead.
func (p *process) goneBefore(at time.Time) bool {
	return p.fellBefore(at) || !p.gone.IsZero() && !p.gone.After(at)
}

// awake waits until the process is not frozen. What waited for that goes on at a time of its own.
func (p *process) awake(ctx context.Context, what uint64) error {
	p.mu.Lock()
	thaw := p.thaw
	p.mu.Unlock()
	if thaw == nil {
		return nil
	}
	select {
	case <-thaw:
		return p.wait(ctx, p.way(what), what)
	case <-p.dead:
		return errDead
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait lets time pass for the process.
func (p *process) wait(ctx context.Context, d time.Duration, what uint64) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.dead:
		return errDead
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.awake(ctx, what)
}

// longestWay is what it takes at most to reach the Engine DB.
const longestWay = 2 * time.Second

// way is how long the process takes to reach something.
func (p *process) way(what uint64) time.Duration {
	r := p.w.draw(p.name, int64(what), time.Since(p.w.began).Nanoseconds())
	if r.IntN(40) == 0 {
		return between(r, time.Millisecond, longestWay)
	}
	return between(r, 100*time.Microsecond, 30*time.Millisecond)
}

// reach takes the process to the Engine DB, if it lives so long.
func (p *process) reach(ctx context.Context, what uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.wait(ctx, p.way(what), what); err != nil {
		return err
	}
	p.mu.Lock()
	p.arrivals++
	now := p.fate.dieAtOp == p.arrivals
	p.within = now && p.fate.dieHow == "within"
	p.after = now && p.fate.dieHow == "after"
	p.mu.Unlock()
	if now && p.fate.dieHow == "before" {
		p.die("before a transaction")
	}
	if p.isDead() {
		return errDead
	}
	return nil
}

// diesWithin reports whether it dies at this statement of its transaction: the second, if there is one.
func (p *process) diesWithin(t *transaction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.within && t.statements == 2
}

func (p *process) diesAfterCommit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.after || p.within // a transaction of one statement has no second
}

// fell keeps what became of a process.
func (w *world) fell(p *process, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened(event{by: p, what: what})
}

// start starts a process.
func (w *world) start(c command, f fate) *process {
	p := &process{w: w, name: fmt.Sprint("p", len(w.processes)+1), command: c, fate: f,
		stop: make(chan struct{}), dead: make(chan struct{}), done: make(chan struct{})}
	w.processes = append(w.processes, p)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.fell(p, "starts: "+c.String())
	s := w.db.store(p)
	log := slog.New(slog.DiscardHandler)
	if w.log != nil {
		log = slog.New(w.log).With("process", p.name)
	}
	e := engine.New(engine.Deps{
		Config: w.config, Store: s, Locker: &locker{p}, Dialect: &warehouses.Dialect{Name: "simulation"}, Database: "dw",
		OpenWarehouse: p.openWarehouse, Handlers: []handlers.Handler{&handler{p: p}},
		Actor: store.Actor{Name: p.name, Kind: "HUMAN"}, Log: log, Stop: p.stop,
	})
	var timers []*time.Timer
	at := func(d time.Duration, do func()) {
		if d > 0 {
			timers = append(timers, time.AfterFunc(d, do))
		}
	}
	at(f.dieAt, func() { p.die("at its time") })
	at(f.stopAt, func() { w.fell(p, "is told to stop"); close(p.stop) })
	at(f.cancelAt, func() {
		w.fell(p, "is told to stop at once")
		p.cancelled = true
		cancel()
	})
	at(f.freezeAt, func() { p.freeze(f.freezeFor) })
	at(f.loseLocks, func() { p.loseLocks() })
	go func() {
		p.err = p.carryOut(ctx, e)
		for _, t := range timers {
			t.Stop()
		}
		_ = p.awake(context.Background(), 0)
		_ = e.Close()
		cancel()
		w.freeLocks(p)
		_ = s.Close()
		w.fell(p, "ends: "+p.result())
		if p.gone.IsZero() {
			p.gone = time.Now()
		}
		close(p.done)
	}()
	return p
}

// result is the code of the error that the process ended with.
func (p *process) result() string {
	switch {
	case p.isDead():
		return "dead"
	case p.err == nil:
		return "OK"
	}
	return string(fault.As(p.err).Code)
}

func (p *process) carryOut(ctx context.Context, e *engine.Engine) error {
	if c := p.command; c.run != nil {
		request := *c.run
		if c.newest {
			if request.RunID = p.w.newestRun(request.Pipeline); request.RunID == 0 {
				return nil
			}
		}
		if request.Backfill != "" {
			_, err := e.Backfill(ctx, request)
			return err
		}
		_, err := e.Run(ctx, request)
		return err
	}
	request := p.command.request
	if p.command.newest {
		if request.RunID = p.w.newestRun(request.Pipeline); request.RunID == 0 {
			return nil
		}
	}
	var err error
	switch p.command.operator {
	case "resume":
		_, err = e.Resume(ctx, request)
	case "pause":
		_, err = e.Pause(ctx, request)
	case "cancel":
		_, err = e.Cancel(ctx, request)
	case "skip":
		_, err = e.Skip(ctx, request)
	case "mark":
		_, err = e.Mark(ctx, request)
	case "reconcile":
		_, err = e.Reconcile(ctx, request.Pipeline)
	}
	return err
}

func (w *world) newestRun(pipeline string) int64 {
	rows := w.db.ask(`SELECT COALESCE(MAX(r.PIPELINE_RUN_ID), 0) FROM AUD_PIPELINES_RUN_LOG r
JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID WHERE p.PIPELINE_CODE = $1`, pipeline)
	return rows[0][0].(int64)
}
