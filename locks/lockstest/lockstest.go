// Package lockstest is the suite that every implementation of locks.Locker passes. It starts further processes: the
// test binary itself, through Main.
package lockstest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

// Backend is an implementation under test. A place is where its locks are, a folder or a schema, in one string that
// means the same in another process.
type Backend struct {
	New  func(t *testing.T) (place string)
	Open func(place string) (locks.Locker, error)
	// Break takes the lock of key away behind the back of its holder.
	Break func(t *testing.T, place string, key locks.Key)
}

// patience bounds what is expected to happen; nothing is asserted about how long it takes.
const patience = 2 * time.Minute

// brief is long enough for several tries and ends waits that are expected to be in vain.
const brief = 50 * time.Millisecond

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	tests := []struct {
		name string
		run  func(*testing.T, Backend)
	}{
		{"Exclusion", testExclusion},
		{"TryLock", testTryLock},
		{"WaitLimit", testWaitLimit},
		{"ContextEnds", testContextEnds},
		{"ReleaseWakesWaiters", testReleaseWakesWaiters},
		{"Held", testHeld},
		{"ReleaseTwice", testReleaseTwice},
		{"Lost", testLost},
		{"Close", testClose},
		{"CloseEndsWaits", testCloseEndsWaits},
		{"ManyKeys", testManyKeys},
		{"HeldDisturbsNobody", testHeldDisturbsNobody},
		{"Stress", testStress},
		{"KilledHolder", testKilledHolder},
		{"KilledWaiter", testKilledWaiter},
		{"Processes", testProcesses},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, b)
		})
	}
}

func testExclusion(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key, other := newKey(t), newKey(t)
	held := lock(t, one, key)
	refused(t, one, key)
	refused(t, two, key)
	release(t, lock(t, two, other))
	check(t, held)
	release(t, held)
	held = lock(t, two, key)
	refused(t, one, key)
	refused(t, two, key)
	release(t, held)
	release(t, lock(t, one, key))
}

func testTryLock(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	held := try(t, one, key)
	if held == nil {
		t.Fatal("a free key was not obtained")
	}
	for name, l := range map[string]locks.Locker{"the same locker": one, "another locker": two} {
		if try(t, l, key) != nil {
			t.Fatalf("%s obtained a key that is held", name)
		}
	}
	release(t, held)
	held = try(t, two, key)
	if held == nil {
		t.Fatal("a released key was not obtained")
	}
	release(t, held)
}

func testWaitLimit(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	holder := locks.Holder{What: "target dw.sales.orders", Pipeline: "SALES", Task: "load_orders"}
	held, err := one.Lock(t.Context(), key, holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, held)
	for _, l := range []locks.Locker{one, two} {
		for _, wait := range []time.Duration{1, brief} {
			_, err := l.Lock(t.Context(), key, locks.Holder{What: "target dw.sales.orders", Pipeline: "OTHER"}, wait)
			timedOut(t, err)
		}
	}
	// The shortest wait obtains a free key all the same.
	l, err := two.Lock(t.Context(), newKey(t), holder, 1)
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
}

func testContextEnds(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	held, err := one.Lock(t.Context(), key, locks.Holder{What: "target dw.sales.orders", Pipeline: "SALES", Task: "load_orders"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine := lock(t, two, newKey(t))
	for _, l := range []locks.Locker{one, two} {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		_, err := l.Lock(ctx, key, locks.Holder{What: "target dw.sales.orders"}, 0)
		cancel()
		timedOut(t, err)

		ctx, cancel = context.WithCancel(t.Context())
		result := lockLater(ctx, l, key)
		cancel()
		if got := <-result; !errors.Is(got.err, context.Canceled) || fault.Has(got.err, fault.LockTimeout) {
			t.Fatalf("a cancelled wait ended with %v", got.err)
		}
		if _, err := l.TryLock(ctx, newKey(t), locks.Holder{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("TryLock with a cancelled context: %v", err)
		}
	}
	// A wait that ended harmed no lock of its process.
	check(t, mine)
	check(t, held)
	release(t, mine)
	release(t, held)
	release(t, lock(t, two, key))
}

func testReleaseWakesWaiters(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	held := lock(t, one, key)
	var waiting []<-chan result
	for range 5 {
		waiting = append(waiting, lockLater(t.Context(), one, key), lockLater(t.Context(), two, key))
	}
	release(t, held)
	var all sync.WaitGroup
	for _, w := range waiting {
		all.Go(func() {
			got := receive(t, w)
			if got.err == nil {
				got.err = got.lock.Release()
			}
			if got.err != nil {
				t.Error(got.err)
			}
		})
	}
	all.Wait()
}

func testHeld(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	if got := held(t, one); len(got) != 0 {
		t.Fatalf("nothing is held, Held says %v", got)
	}
	before := time.Now().Add(-time.Minute)
	want := []locks.Holder{
		{What: "target b", Pipeline: "SALES", Task: "load_orders", PipelineRunID: 97, TaskRunID: 412},
		{What: "target a"},
		{What: "target c", Pipeline: "SALES"},
	}
	var taken []locks.Lock
	for i, h := range want {
		l, err := []locks.Locker{one, two}[i%2].Lock(t.Context(), newKey(t), h, 0)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, l)
	}
	for _, l := range []locks.Locker{one, two} {
		got := held(t, l)
		if len(got) != len(want) {
			t.Fatalf("three locks are held, Held says %v", got)
		}
		for i, h := range got {
			if h.Host == "" || h.PID == 0 || h.Since.Before(before) || h.Since.Location() != time.UTC {
				t.Errorf("host, pid and since are not filled in: %+v", h)
			}
			h.Host, h.PID, h.Since = "", 0, time.Time{}
			if h != want[i] {
				t.Errorf("holder %d is %+v, want %+v", i, h, want[i])
			}
		}
	}
	for i, l := range taken {
		release(t, l)
		if got := held(t, two); len(got) != len(want)-i-1 {
			t.Errorf("%d of %d locks released, Held says %v", i+1, len(want), got)
		}
	}
}

func testReleaseTwice(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	first := lock(t, one, key)
	release(t, first)
	second := lock(t, one, key)
	release(t, first)
	check(t, second)
	refused(t, two, key)
	lost(t, first)
	release(t, second)
}

func testLost(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	broken := lock(t, one, key)
	select {
	case <-broken.Lost():
		t.Fatal("a lock that is held says that it is lost")
	default:
	}
	b.Break(t, place, key)
	lost(t, broken)
	select {
	case <-broken.Lost():
	case <-time.After(patience):
		t.Fatal("Check found the lock lost, Lost is open")
	}
	successor := lock(t, two, key)
	lost(t, broken)
	check(t, successor)
	release(t, broken) // must not free the successor's
	check(t, successor)
	refused(t, one, key)
	release(t, successor)
	again := lock(t, one, key)
	check(t, again)
	release(t, again)
}

func testClose(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	var keys []locks.Key
	var taken []locks.Lock
	for range 20 {
		key := newKey(t)
		keys = append(keys, key)
		taken = append(taken, lock(t, one, key))
	}
	for range 2 {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, key := range keys {
		l := try(t, two, key)
		if l == nil {
			t.Fatal("Close left a lock behind")
		}
		<-taken[i].Lost()
		lost(t, taken[i])
		release(t, taken[i])
		check(t, l)
		release(t, l)
	}
	if _, err := one.Lock(t.Context(), newKey(t), locks.Holder{}, 0); err == nil {
		t.Error("Lock after Close succeeded")
	}
	if _, err := one.TryLock(t.Context(), newKey(t), locks.Holder{}); err == nil {
		t.Error("TryLock after Close succeeded")
	}
}

func testCloseEndsWaits(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	taken := lock(t, one, key)
	waiting := []<-chan result{lockLater(t.Context(), two, key), lockLater(t.Context(), two, key)}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	for _, w := range waiting {
		if got := receive(t, w); got.err == nil {
			t.Error("a wait survived Close")
		}
	}
	check(t, taken)
	release(t, taken)
}

func testManyKeys(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	const n = 100
	keys := make([]locks.Key, n)
	taken := make([]locks.Lock, n)
	for i := range keys {
		keys[i] = newKey(t)
		taken[i] = lock(t, []locks.Locker{one, two}[i%2], keys[i])
	}
	for i := range keys {
		if try(t, one, keys[i]) != nil || try(t, two, keys[i]) != nil {
			t.Fatalf("key %d was given twice", i)
		}
		check(t, taken[i])
	}
	if got := held(t, one); len(got) != n {
		t.Errorf("%d locks are held, Held lists %d", n, len(got))
	}
	for i := range keys {
		release(t, taken[n-1-i])
	}
	if got := held(t, one); len(got) != 0 {
		t.Errorf("everything is released, Held says %v", got)
	}
}

// testHeldDisturbsNobody lists locks without end while keys that only one process uses are tried.
func testHeldDisturbsNobody(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	child := start(t, place, "hold", "target x")
	child.kill(t) // a dead holder's traces are the hardest to read
	key := child.key

	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := two.Held(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer func() {
		close(stop)
		readers.Wait()
	}()
	release(t, lock(t, one, key))
	for i := range 200 {
		l := try(t, one, key)
		if l == nil {
			t.Errorf("try %d found a free key held", i)
			break
		}
		check(t, l)
		release(t, l)
	}
}

type result struct {
	lock locks.Lock
	err  error
}

// lockLater waits for key in a goroutine.
func lockLater(ctx context.Context, l locks.Locker, key locks.Key) <-chan result {
	c := make(chan result, 1)
	go func() {
		got, err := l.Lock(ctx, key, locks.Holder{What: "target x"}, 0)
		c <- result{got, err}
	}()
	return c
}

func receive(t *testing.T, c <-chan result) result {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(patience):
		t.Error("a wait did not end")
		return result{err: errors.New("no result")}
	}
}

func open(t *testing.T, b Backend, place string) locks.Locker {
	t.Helper()
	l, err := b.Open(place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func lock(t *testing.T, l locks.Locker, key locks.Key) locks.Lock {
	t.Helper()
	got, err := l.Lock(t.Context(), key, locks.Holder{What: "target x"}, patience)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func try(t *testing.T, l locks.Locker, key locks.Key) locks.Lock {
	t.Helper()
	got, err := l.TryLock(t.Context(), key, locks.Holder{What: "target x"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func release(t *testing.T, l locks.Lock) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, l locks.Lock) {
	t.Helper()
	if err := l.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func lost(t *testing.T, l locks.Lock) {
	t.Helper()
	if err := l.Check(t.Context()); !fault.Has(err, fault.LockLost) {
		t.Fatalf("Check of a lock that is lost: %v", err)
	}
}

func refused(t *testing.T, l locks.Locker, key locks.Key) {
	t.Helper()
	if got, err := l.Lock(t.Context(), key, locks.Holder{What: "target x"}, brief); !fault.Has(err, fault.LockTimeout) {
		t.Fatalf("a key that is held: lock %v, error %v", got, err)
	}
}

func held(t *testing.T, l locks.Locker) []locks.Holder {
	t.Helper()
	got, err := l.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// timedOut wants the error that names load_orders of SALES as the holder.
func timedOut(t *testing.T, err error) {
	t.Helper()
	if !fault.Has(err, fault.LockTimeout) {
		t.Fatalf("a wait in vain ended with %v", err)
	}
	text := err.Error()
	for _, part := range []string{"target dw.sales.orders is locked by pipeline SALES, task load_orders", "pid ", "since 2"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
	if !fault.As(err).Retryable {
		t.Errorf("%v is not retryable", err)
	}
}
