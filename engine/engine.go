// Package engine owns pipelines, runs, tasks and attempts: what may start, what is finished, what is recorded. It knows
// no SQL and no warehouse; handlers do the work of a task and the store keeps what happened.
package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Deps are what an Engine works with. A field is needed only by the methods that use it: validating files needs neither
// Store nor Locker, and reading needs no warehouse.
type Deps struct {
	Config  *config.Config
	Store   *store.Store
	Locker  locks.Locker
	Dialect *warehouses.Dialect // of the configured warehouse
	// Database is the one that a two-part target name means, as far as the configuration tells.
	Database string
	// OpenWarehouse connects to the configured warehouse. It is called at most once, when it is first needed; Close
	// closes what it returned.
	OpenWarehouse func(context.Context) (warehouses.Warehouse, error)
	Handlers      []handlers.Handler
	Actor         store.Actor

	Log       *slog.Logger // for people who watch: one line per task; nil is silence
	LogFormat string       // of attempt logs: "text" or "json"; "" is text
	LogLevel  slog.Level   // LevelDebug adds every statement to the attempt logs
	Observer  Observer     // nil for none

	// Stop, once closed, keeps new tasks from starting and lets running ones finish. Cancelling the context of Run ends
	// their statements too.
	Stop <-chan struct{}
}

// Observer watches a run, from several goroutines at once. It must return quickly.
type Observer interface {
	RunStarted(run *RunDocument)
	TaskStarted(task string, attempt int)
	TaskStep(task, step string)
	// TaskEnded also tells of tasks that were skipped.
	TaskEnded(task TaskDocument)
	RunEnded(run *RunDocument)
}

// Engine carries out commands on one project. It is safe for concurrent use.
type Engine struct {
	Deps
	handlers map[string]handlers.Handler
	host     string
	id       string // names this process as an owner: host:pid:uuid

	mu        sync.Mutex
	warehouse warehouses.Warehouse
	database  string // the warehouse's default database, once connected
	alive     locks.Lock

	courier courier
}

// New makes an Engine. It opens nothing.
func New(d Deps) *Engine {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	e := &Engine{
		Deps:     d,
		handlers: map[string]handlers.Handler{},
		host:     host,
		id:       host + ":" + strconv.Itoa(os.Getpid()) + ":" + uuid.NewString(),
	}
	if d.Store != nil {
		d.Store.Subscribe(d.Config.Profile, subscriptions(d.Config.Notifications))
	}
	for _, h := range d.Handlers {
		e.handlers[h.Name()] = h
	}
	return e
}

// Close gives back the warehouse and the lock that proves this process alive. Store and Locker stay the caller's.
func (e *Engine) Close() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	e.courier.settle(ended, time.Time{})
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	if e.warehouse != nil {
		errs = append(errs, e.warehouse.Close())
		e.warehouse = nil
	}
	if e.alive != nil {
		errs = append(errs, e.alive.Release())
		e.alive = nil
	}
	return errors.Join(errs...)
}

// connect opens the warehouse and asks it who it is, so that an unreachable one is known before anything is recorded.
func (e *Engine) connect(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.database != "" || e.OpenWarehouse == nil {
		return nil
	}
	if e.warehouse == nil {
		w, err := e.OpenWarehouse(ctx)
		if err != nil {
			return err
		}
		e.warehouse = w
	}
	facts, err := e.warehouse.Facts(ctx)
	if err != nil {
		return err
	}
	e.database = facts.Database
	return nil
}

// env is what handlers may use. The warehouse is in it once connected.
func (e *Engine) env() *handlers.Env {
	e.mu.Lock()
	defer e.mu.Unlock()
	env := &handlers.Env{
		ProjectDir:    e.Config.Dir,
		Dialect:       e.Dialect,
		Warehouse:     e.warehouse,
		CountTarget:   e.Config.Orchestration.TargetCount != config.CountNone,
		CreateSchemas: e.Config.Warehouse.CreateSchemas,
		TableFormat:   e.Config.Warehouse.TableFormat,
		Database:      cmp.Or(e.database, e.Deps.Database),
		LockWait:      e.Config.Orchestration.LockWait,
	}
	if e.Store != nil {
		env.TargetRecord = e.Store.TargetRecord
	}
	return env
}

// beAlive takes the lock that every process can ask for to learn whether this one lives.
func (e *Engine) beAlive(ctx context.Context) (locks.Lock, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alive != nil {
		select {
		case <-e.alive.Lost():
		default:
			return e.alive, nil
		}
	}
	lock, err := e.Locker.Lock(ctx, locks.OwnerKey(e.id), locks.Holder{What: "process " + e.id}, time.Minute)
	if err != nil {
		return nil, err
	}
	e.alive = lock
	return lock, nil
}

// dead reports whether a process that owns runs or attempts is gone: nobody holds its lock.
func (e *Engine) dead(ctx context.Context, owner string) (bool, error) {
	if owner == e.id {
		return false, nil
	}
	holder := locks.Holder{What: "proof that process " + owner + " is gone"}
	lock, err := e.Locker.TryLock(ctx, locks.OwnerKey(owner), holder)
	if err == nil && lock == nil && e.vanished(owner) {
		lock, err = e.Locker.Lock(ctx, locks.OwnerKey(owner), holder, serverNotices)
		if fault.Has(err, fault.LockTimeout) {
			return false, nil
		}
	}
	if err != nil || lock == nil {
		return false, err
	}
	return true, lock.Release()
}

// serverNotices is how long a busy PostgreSQL may take to see that the process behind a session has died.
const serverNotices = 10 * time.Second

// vanished reports whether an owner was a process of this host that does not exist any more.
func (e *Engine) vanished(owner string) bool {
	parts := strings.Split(owner, ":")
	if len(parts) != 3 || parts[0] != e.host {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	return err == nil && noProcess(pid)
}

// noProcess reports whether this host has no process with the id.
func noProcess(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// audited records a state-changing command and how it ended, and delivers what webhooks are to hear of it.
func (e *Engine) audited(ctx context.Context, action store.ActionRecord, do func() error) error {
	action.Actor, action.Host = e.Actor, e.host
	id, err := e.Store.BeginAction(ctx, action)
	if err != nil {
		return err
	}
	if a, ok := ctx.Value(actionKey{}).(*runningAction); ok {
		a.id = id
	}
	err = do()
	outcome := "DONE"
	if err != nil {
		outcome = string(fault.As(err).Code)
	}
	err = errors.Join(err, e.Store.EndAction(context.WithoutCancel(ctx), id, outcome, fault.ExitCode(err)))
	if slices.Contains(endsRuns, action.Command) {
		e.settleDeliveries(ctx)
	}
	return err
}

// runningAction is the record of a command that finds out later which run it works on.
type runningAction struct{ id int64 }

type actionKey struct{}

// findingRun gives a command that audited records a context by which noteRun adds its run to the record, and noteResult what
// it came to.
func findingRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, actionKey{}, &runningAction{})
}

// noteResult records what the command came to.
func (e *Engine) noteResult(ctx context.Context, result any) error {
	a, ok := ctx.Value(actionKey{}).(*runningAction)
	if !ok || a.id == 0 {
		return nil
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return e.Store.NoteResult(context.WithoutCancel(ctx), a.id, string(text))
}

// noteRun records which run the command works on, the first one when there are several.
func (e *Engine) noteRun(ctx context.Context, runID int64) error {
	a, ok := ctx.Value(actionKey{}).(*runningAction)
	if !ok || a.id == 0 {
		return nil
	}
	defer func() { a.id = 0 }()
	return e.Store.NoteRun(context.WithoutCancel(ctx), a.id, runID)
}
