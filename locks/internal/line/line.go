// Package line is the queue of one process in front of its locks: goroutines that want the same key take turns, and
// whoever has the turn asks the file or the server, again and again until the lock is obtained or the wait is over.
package line

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

const firstPause = 2 * time.Millisecond

var errTimeUp = errors.New("the wait is over")

// ErrClosed is the error of every Lock and TryLock after Close.
var ErrClosed = fault.New(fault.Internal, "the locks of this process are closed")

// Line implements Lock and TryLock of a locks.Locker. The turn at a key stays with the lock that was obtained, which
// gives it back with Leave.
type Line struct {
	maxPause time.Duration
	source   Source
	closed   chan struct{}
	close    sync.Once

	mu    sync.Mutex
	turns map[locks.Key]*turn
}

// Source is where the locks really are.
type Source struct {
	// Try obtains key without waiting; nil, nil when it is held.
	Try func(ctx context.Context, key locks.Key, holder locks.Holder) (locks.Lock, error)
	// HolderOf says who holds key, nil when that is not known.
	HolderOf func(ctx context.Context, key locks.Key) *locks.Holder
}

// turn is the right to ask for a key; free holds one token while nobody has it.
type turn struct {
	free  chan struct{}
	users int // goroutines that have the turn or wait for it
}

// New makes a Line whose pauses between two tries grow to maxPause.
func New(maxPause time.Duration, source Source) *Line {
	return &Line{maxPause: maxPause, source: source, closed: make(chan struct{}), turns: map[locks.Key]*turn{}}
}

// Close ends every wait; nothing is obtained afterwards.
func (l *Line) Close() { l.close.Do(func() { close(l.closed) }) }

// Lock is locks.Locker's.
func (l *Line) Lock(ctx context.Context, key locks.Key, holder locks.Holder, wait time.Duration) (locks.Lock, error) {
	holder = here(holder)
	start := time.Now()
	lock, err := l.lock(ctx, key, holder, wait)
	if err != nil && (errors.Is(err, errTimeUp) || ctx.Err() == context.DeadlineExceeded) {
		return nil, l.timeout(ctx, key, holder, time.Since(start))
	}
	return lock, err
}

func (l *Line) lock(ctx context.Context, key locks.Key, holder locks.Holder, wait time.Duration) (locks.Lock, error) {
	var timeUp <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeUp = timer.C
	}
	if err := l.enter(ctx, key, timeUp); err != nil {
		return nil, err
	}
	for pause := firstPause; ; pause = min(2*pause, l.maxPause) {
		lock, err := l.source.Try(ctx, key, holder)
		if lock != nil {
			return lock, nil
		}
		if err == nil {
			// Waiters of many processes must not ask in step.
			err = l.sleep(ctx, pause/2+rand.N(pause), timeUp)
		}
		if err != nil {
			l.Leave(key)
			return nil, err
		}
	}
}

// TryLock is locks.Locker's. It finds the key held while another goroutine of this process waits for it.
func (l *Line) TryLock(ctx context.Context, key locks.Key, holder locks.Holder) (locks.Lock, error) {
	if err := l.stopped(ctx); err != nil {
		return nil, err
	}
	t := l.join(key)
	select {
	case <-t.free:
	default:
		l.quit(key, t)
		return nil, nil
	}
	lock, err := l.source.Try(ctx, key, here(holder))
	if lock == nil {
		l.Leave(key)
	}
	return lock, err
}

// Leave gives the turn at key to the next goroutine.
func (l *Line) Leave(key locks.Key) {
	l.mu.Lock()
	t := l.turns[key]
	l.mu.Unlock()
	t.free <- struct{}{}
	l.quit(key, t)
}

func (l *Line) enter(ctx context.Context, key locks.Key, timeUp <-chan time.Time) error {
	if err := l.stopped(ctx); err != nil {
		return err
	}
	t := l.join(key)
	select {
	case <-t.free: // even the shortest wait tries once
		return nil
	default:
	}
	var err error
	select {
	case <-t.free:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.closed:
		err = ErrClosed
	case <-timeUp:
		err = errTimeUp
	}
	l.quit(key, t)
	return err
}

func (l *Line) join(key locks.Key) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[key]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		l.turns[key] = t
	}
	t.users++
	return t
}

func (l *Line) quit(key locks.Key, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(l.turns, key)
	}
}

func (l *Line) stopped(ctx context.Context) error {
	select {
	case <-l.closed:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

func (l *Line) sleep(ctx context.Context, d time.Duration, timeUp <-chan time.Time) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return ErrClosed
	case <-timeUp:
		return errTimeUp
	}
}

func (l *Line) timeout(ctx context.Context, key locks.Key, wanted locks.Holder, waited time.Duration) error {
	what := wanted.What
	if what == "" {
		what = "the lock"
	}
	by := "another process"
	if h := l.source.HolderOf(context.WithoutCancel(ctx), key); h != nil {
		by = h.String()
	}
	return fault.New(fault.LockTimeout, "%s is locked by %s; gave up after %s", what, by, waited.Round(time.Millisecond)).
		WithHint("`etl-craft locks` lists every lock and its holder")
}

func here(h locks.Holder) locks.Holder {
	h.PID = os.Getpid()
	if host, err := os.Hostname(); err == nil {
		h.Host = host
	}
	return h
}

// Lost is the error of a Check that finds h's lock gone.
func Lost(h locks.Holder, why error) error {
	what := h.What
	if what == "" {
		what = "a key"
	}
	return fault.New(fault.LockLost, "the lock of %s is lost: %w", what, why)
}
