package lockstest

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

const (
	envRole  = "ETL_CRAFT_LOCKSTEST_ROLE" // what the started process does; unset in the test itself
	envPlace = "ETL_CRAFT_LOCKSTEST_PLACE"
	envArg   = "ETL_CRAFT_LOCKSTEST_ARG"
	envKey   = "ETL_CRAFT_LOCKSTEST_KEY"
)

const increments = 50

// Main is for TestMain: it runs the tests and fails when they leave goroutines behind, or, in a process that the suite
// has started, plays that process's part.
func Main(m *testing.M, b Backend) {
	role := os.Getenv(envRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(b, role, os.Getenv(envPlace), locks.Key(os.Getenv(envKey)), os.Getenv(envArg)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(b Backend, role, place string, key locks.Key, arg string) error {
	ctx := context.Background()
	l, err := b.Open(place)
	if err != nil {
		return err
	}
	switch role {
	case "hold": // until stdin ends
		if _, err := l.Lock(ctx, key, locks.Holder{What: arg, Pipeline: "SALES", Task: "load_orders"}, patience); err != nil {
			return err
		}
		fmt.Println("ready")
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
	case "wait": // for a key that is held
		if _, err := l.Lock(ctx, key, locks.Holder{What: arg}, brief); !fault.Has(err, fault.LockTimeout) {
			return fmt.Errorf("the key is not held: %v", err)
		}
		fmt.Println("ready")
		if _, err := l.Lock(ctx, key, locks.Holder{What: arg}, 0); err != nil {
			return err
		}
	case "count": // in a file, by reading and writing, which loses counts without a lock
		fmt.Println("ready")
		for range increments {
			if err := increment(ctx, l, key, arg); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("no part %q", role)
	}
	return l.Close()
}

func increment(ctx context.Context, l locks.Locker, key locks.Key, file string) error {
	k, err := l.Lock(ctx, key, locks.Holder{What: "target x"}, patience)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	if err := k.Check(ctx); err != nil {
		return err
	}
	return k.Release()
}

// process is a started process that has said that it is ready.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	key   locks.Key
}

func start(t *testing.T, place, role, arg string) *process {
	t.Helper()
	return startOn(t, place, role, arg, newKey(t))
}

func startOn(t *testing.T, place, role, arg string, key locks.Key) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envPlace+"="+place, envArg+"="+arg, envKey+"="+string(key))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, stdin: stdin, key: key}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.kill(t)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the started process says %q: %v", line, err)
	}
	return p
}

// kill is kill -9.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // "signal: killed"
}

// finish lets the process end by itself.
func (p *process) finish(t *testing.T) {
	t.Helper()
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func testKilledHolder(t *testing.T, b Backend) {
	place := b.New(t)
	l := open(t, b, place)
	child := start(t, place, "hold", "target dw.sales.orders")
	if try(t, l, child.key) != nil {
		t.Fatal("a key that another process holds was obtained")
	}
	_, err := l.Lock(t.Context(), child.key, locks.Holder{What: "target dw.sales.orders"}, brief)
	timedOut(t, err)
	pid := child.cmd.Process.Pid
	if !strings.Contains(err.Error(), fmt.Sprintf("pid %d)", pid)) {
		t.Errorf("%v does not name process %d", err, pid)
	}
	if got := held(t, l); len(got) != 1 || got[0].PID != pid {
		t.Errorf("process %d holds a lock, Held says %v", pid, got)
	}
	waiting := lockLater(t.Context(), l, child.key)
	child.kill(t)
	got := receive(t, waiting)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if now := held(t, l); len(now) != 1 || now[0].PID != os.Getpid() {
		t.Errorf("this process %d holds the lock, Held says %v", os.Getpid(), now)
	}
	release(t, got.lock)

	// The trace of a dead process is not a holder.
	child = start(t, place, "hold", "target y")
	child.kill(t)
	for deadline := time.Now().Add(patience); len(held(t, l)) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the holder is dead, Held says %v", held(t, l))
		}
	}
	release(t, lock(t, l, child.key))

	// A process that ends in order frees its lock before it ends.
	child = start(t, place, "hold", "target z")
	child.finish(t)
	k := try(t, l, child.key)
	if k == nil {
		t.Fatal("a process that ended holds its lock")
	}
	release(t, k)
}

func testKilledWaiter(t *testing.T, b Backend) {
	place := b.New(t)
	one, two := open(t, b, place), open(t, b, place)
	key := newKey(t)
	mine := lock(t, one, key)
	child := startOn(t, place, "wait", "target x", key)
	child.kill(t)
	check(t, mine)
	refused(t, two, key)
	release(t, mine)
	release(t, lock(t, two, key))
}

// testProcesses lets four processes, this one included, count in one file.
func testProcesses(t *testing.T, b Backend) {
	place := b.New(t)
	l := open(t, b, place)
	file := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	var children []*process
	for range 3 {
		children = append(children, startOn(t, place, "count", file, key))
	}
	for range increments {
		if err := increment(t.Context(), l, key, file); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range children {
		c.finish(t)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := strconv.Itoa(4 * increments); string(text) != want {
		t.Errorf("four processes counted to %s, want %s", text, want)
	}
}

// testStress counts holders of a key who meet: none may.
func testStress(t *testing.T, b Backend) {
	place := b.New(t)
	lockers := []locks.Locker{open(t, b, place), open(t, b, place), open(t, b, place)}
	const workers, rounds, nKeys = 12, 40, 4
	keys := make([]locks.Key, nKeys)
	for i := range keys {
		keys[i] = newKey(t)
	}
	var inside [nKeys]atomic.Int32
	var shared [nKeys]int // the race detector watches it
	var overlaps, obtained atomic.Int32
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := mathrand.New(mathrand.NewPCG(1, uint64(w)))
			for range rounds {
				i := random.IntN(nKeys)
				l := lockers[random.IntN(len(lockers))]
				var k locks.Lock
				var err error
				switch random.IntN(4) {
				case 0:
					k, err = l.TryLock(context.Background(), keys[i], locks.Holder{What: "target x"})
				case 1:
					k, err = l.Lock(context.Background(), keys[i], locks.Holder{What: "target x"}, brief)
				default:
					k, err = l.Lock(context.Background(), keys[i], locks.Holder{What: "target x"}, 0)
				}
				if err != nil && !fault.Has(err, fault.LockTimeout) {
					t.Error(err)
					return
				}
				if k == nil {
					continue
				}
				obtained.Add(1)
				if inside[i].Add(1) != 1 {
					overlaps.Add(1)
				}
				shared[i]++
				if err := k.Check(context.Background()); err != nil {
					t.Error(err)
				}
				inside[i].Add(-1)
				if err := k.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := overlaps.Load(); n != 0 {
		t.Errorf("%d holders of one key met", n)
	}
	sum := 0
	for _, n := range shared {
		sum += n
	}
	if sum == 0 || sum != int(obtained.Load()) {
		t.Errorf("%d locks obtained, %d counted under them", obtained.Load(), sum)
	}
}

// newKey is a key of this test alone: advisory locks are common to all schemas of a database.
func newKey(t *testing.T) locks.Key { return locks.TargetKey(t.Name(), rand.Text()) }
