package simulation_test

import (
	"context"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

// locker gives a process the locks of the case. Only its death, or a lost session, frees them without its doing.
type locker struct{ p *process }

type lock struct {
	w      *world
	p      *process
	key    locks.Key
	holder locks.Holder
	lost   chan struct{}
	gone   bool // lost
	free   bool // released
}

// toLock is the way to the lock service. Keys of owners differ each time a case is played, so they are not in it.
const toLock = 1

// poll is how often a waiting process asks for a lock.
const poll = 200 * time.Millisecond

func (l *locker) Lock(ctx context.Context, key locks.Key, holder locks.Holder, wait time.Duration) (locks.Lock, error) {
	began := time.Now()
	for {
		got, err := l.TryLock(ctx, key, holder)
		if got != nil || err != nil {
			return got, err
		}
		pause := poll + l.p.way(toLock)
		if left := wait - time.Since(began); wait > 0 {
			if left <= 0 {
				return nil, l.timeout(key, holder)
			}
			pause = min(pause, left)
		}
		if err := l.p.wait(ctx, pause, toLock); err != nil {
			if ctx.Err() == context.DeadlineExceeded {
				return nil, l.timeout(key, holder)
			}
			return nil, err
		}
	}
}

func (l *locker) timeout(key locks.Key, wanted locks.Holder) error {
	l.p.w.mu.Lock()
	defer l.p.w.mu.Unlock()
	by := "another process"
	if h := l.p.w.held[key]; h != nil {
		by = h.holder.String()
	}
	return fault.New(fault.LockTimeout, "%s is locked by %s", wanted.What, by)
}

func (l *locker) TryLock(ctx context.Context, key locks.Key, holder locks.Holder) (locks.Lock, error) {
	if err := l.p.wait(ctx, l.p.way(toLock), toLock); err != nil {
		return nil, err
	}
	w := l.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.p.isDead() {
		return nil, errDead
	}
	if w.held[key] != nil {
		return nil, nil
	}
	holder.Host, holder.PID, holder.Since = "simulated", 1, time.Now()
	got := &lock{w: w, p: l.p, key: key, holder: holder, lost: make(chan struct{})}
	w.held[key] = got
	return got, nil
}

func (l *locker) Held(context.Context) ([]locks.Holder, error) {
	l.p.w.mu.Lock()
	defer l.p.w.mu.Unlock()
	var list []locks.Holder
	for _, h := range l.p.w.held {
		list = append(list, h.holder)
	}
	return list, nil
}

func (l *locker) Close() error {
	l.p.w.freeLocks(l.p)
	return nil
}

func (k *lock) Check(context.Context) error {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.gone || k.p.isDead() {
		return fault.New(fault.LockLost, "the lock of %s is lost", k.holder.What)
	}
	return nil
}

func (k *lock) Lost() <-chan struct{} { return k.lost }

func (k *lock) Release() error {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if !k.gone && !k.free {
		delete(k.w.held, k.key)
	}
	k.free = true
	return nil
}

// freeLocks frees what a process holds, as its death does.
func (w *world) freeLocks(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, h := range w.held {
		if h.p == p {
			h.gone = true
			delete(w.held, key)
		}
	}
}

// loseLocks takes the process's locks away, as a server does whose session with it has ended.
func (p *process) loseLocks() {
	p.mu.Lock()
	p.falls(time.Now())
	p.mu.Unlock()
	p.w.fell(p, "loses its locks")
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for key, h := range p.w.held {
		if h.p == p {
			h.gone = true
			delete(p.w.held, key)
			close(h.lost)
		}
	}
}
