// Package simulation plays cases made up at random against the real engine: several processes on one Engine DB, under a
// virtual clock. docs/design/simulation.md says what is real in it.
package simulation_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/locks"
)

var (
	seedFlag       = flag.Uint64("seed", 0, "plays only this case, and shows its trace")
	casesFlag      = flag.Int("cases", 2000, "how many cases are played")
	everythingFlag = flag.Bool("everything", false, "shows reads in the traces too")
	firstFlag      = flag.Uint64("first", 1, "the seed of the first case")
)

const (
	mostRepeats = 6             // of the plain command, until nothing is left to do
	longestCase = 6 * time.Hour // of virtual time
	realLimit   = 2 * time.Minute
)

// TestSimulation plays cases and judges what happened in them.
func TestSimulation(t *testing.T) {
	tmpl := newTestTemplate(t)
	if *seedFlag != 0 {
		db := newDatabase(t, tmpl)
		trace, broken := playCase(t, db, *seedFlag)
		t.Log("\n" + trace)
		for _, b := range broken {
			t.Error(b)
		}
		return
	}
	var next, failures atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		t.Run("worker", func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, tmpl)
			for n := next.Add(1); n <= int64(*casesFlag) && failures.Load() < 10; n = next.Add(1) {
				seed := *firstFlag + uint64(n-1)
				if _, broken := playCase(t, db, seed); len(broken) > 0 {
					failures.Add(1)
					t.Errorf("case %d: %s\nreplay: go test ./engine/simulation -run TestSimulation -v -seed %d", seed, strings.Join(broken, "\n"), seed)
				}
			}
		})
	}
}

// TestReplay plays cases twice: the same seed is the same case, to the nanosecond.
func TestReplay(t *testing.T) {
	db := newDatabase(t, newTestTemplate(t))
	for n := range uint64(max(1, *casesFlag/40)) {
		seed := *firstFlag + 1_000_000 + n*7
		first, _ := playCase(t, db, seed)
		second, _ := playCase(t, db, seed)
		if first != second {
			t.Fatalf("case %d was played in two ways\n%s", seed, difference(first, second))
		}
	}
}

// difference shows where two traces part.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return fmt.Sprintf("%s\n--- first:\n%s\n--- second:\n%s", strings.Join(x[max(0, i-5):i], "\n"),
				strings.Join(x[i:min(len(x), i+5)], "\n"), strings.Join(y[min(i, len(y)):min(len(y), i+5)], "\n"))
		}
	}
	return "the second goes on"
}

func newTestTemplate(t *testing.T) template {
	t.Helper()
	tmpl, err := newTemplate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func newDatabase(t *testing.T, tmpl template) *database {
	t.Helper()
	db, err := openDatabase(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.close() })
	return db
}

var logDir = func() string {
	dir, err := os.MkdirTemp("", "simulation")
	if err != nil {
		panic(err)
	}
	return dir
}()

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(logDir)
	os.Exit(code)
}

// playCase plays a case and returns its trace and every rule that was broken in it.
func playCase(t *testing.T, db *database, seed uint64) (trace string, broken []string) {
	return playOut(t, db, seed, newPlay(seed), nil)
}

// playOut plays a play; look sees the world afterwards.
func playOut(t *testing.T, db *database, seed uint64, p play, look func(*world)) (trace string, broken []string) {
	guard := time.AfterFunc(realLimit, func() {
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "case %d hangs in real time\n%s\n", seed, buf[:runtime.Stack(buf, true)])
		os.Exit(2)
	})
	defer guard.Stop()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("case %d: %v", seed, p))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		p.config.LogDir = fmt.Sprintf("%s/%d", logDir, seed%16)
		defer func() {
			if err := db.reset(); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(p.begins)
		w := &world{seed: seed, db: db, began: time.Now(), held: map[locks.Key]*lock{},
			executing: map[int64][]*execution{}, committed: map[int64]bool{},
			config: &config.Config{Dir: logDir, File: logDir + "/etl-craft.yml", Orchestration: p.config}}
		if *seedFlag != 0 {
			w.log = virtualLog(w)
		}
		if err := w.apply(p.pipelines); err != nil {
			t.Fatalf("case %d: %v", seed, err)
		}
		hung := w.play(p)
		j := newJudge(w)
		j.broken = append(j.broken, hung...)
		trace, broken = j.judge()
		if look != nil {
			look(w)
		}
	})
	return trace, broken
}

// virtualLog shows the engines' logs.
func virtualLog(w *world) slog.Handler {
	return slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("t", time.Since(w.began).String())
		}
		return a
	}})
}

// apply makes the pipelines of a case.
func (w *world) apply(pipelines []store.DesiredPipeline) error {
	p := &process{w: w, name: "setup", dead: make(chan struct{}), cancel: func() {}}
	s := w.db.store(p)
	defer func() { _ = s.Close() }()
	_, err := s.ApplyMetadata(context.Background(), store.Actor{Name: "setup", Kind: "HUMAN"}, pipelines, func([]*store.Graph) error { return nil })
	return err
}

// play starts the processes of a case at their times, and finishes what they leave. It returns what is never finished.
func (w *world) play(p play) (hung []string) {
	r := rand.New(rand.NewPCG(w.seed, 1))
	for _, c := range byTime(p.commands) {
		time.Sleep(c.at - time.Since(w.began))
		w.start(c.command, c.fate)
	}
	for _, process := range w.processes {
		if !w.ends(process) {
			return []string{process.name + " (" + process.command.String() + ") does not end"}
		}
	}
	for _, pipeline := range p.pipelines {
		w.ends(w.start(command{operator: "resume", request: engine.OperatorRequest{Pipeline: pipeline.Code}}, fate{}))
	}
	for range mostRepeats {
		left := w.unfinished()
		if len(left) == 0 {
			w.ends(w.start(command{operator: "reconcile"}, fate{})) // what a cancel that died has left
			return nil
		}
		for _, run := range left {
			time.Sleep(between(r, time.Millisecond, time.Second))
			request := engine.RunRequest{Pipeline: run.pipeline}
			if run.backfill {
				request.RunID = run.id
			}
			process := w.start(command{run: &request}, fate{})
			if !w.ends(process) {
				return []string{process.name + " (" + process.command.String() + ") does not end"}
			}
		}
	}
	for _, run := range w.unfinished() {
		hung = append(hung, fmt.Sprintf("run %d of %s is never finished", run.id, run.pipeline))
	}
	return hung
}

// ends waits for a process.
func (w *world) ends(p *process) bool {
	limit := time.NewTimer(longestCase - time.Since(w.began))
	defer limit.Stop()
	select {
	case <-p.done:
		return true
	case <-limit.C:
		for _, other := range w.processes {
			other.die("in the end")
		}
		for _, other := range w.processes {
			<-other.done
		}
		return false
	}
}

type leftRun struct {
	id       int64
	pipeline string
	backfill bool
}

func (w *world) unfinished() []leftRun {
	var left []leftRun
	for _, row := range w.db.ask(`SELECT r.PIPELINE_RUN_ID, p.PIPELINE_CODE, r.TRIGGER_KIND FROM AUD_PIPELINES_RUN_LOG r
JOIN CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID WHERE r.STATUS IN ('QUEUED', 'IN_PROGRESS') ORDER BY p.PIPELINE_CODE`) {
		left = append(left, leftRun{row[0].(int64), row[1].(string), row[2] == "BACKFILL"})
	}
	return left
}
