package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/etl-craft/etl-craft/engine"
)

const repaintEvery = 200 * time.Millisecond

// liveView shows a run on a terminal while it runs: a block of lines that is painted over and over, and is gone at the
// end. It implements engine.Observer, and io.Writer for log lines, which stay above the block. A nil liveView shows
// nothing.
type liveView struct {
	s *screen

	mu      sync.Mutex
	title   string
	tasks   []*liveTask
	byCode  map[string]*liveTask
	painted int // lines of the block on the screen
	closed  bool
	done    chan struct{}
	ticking sync.WaitGroup
}

type liveTask struct {
	engine.TaskDocument
	step  string
	since time.Time
}

func newLiveView(s *screen) *liveView {
	v := &liveView{s: s, done: make(chan struct{})}
	v.ticking.Add(1)
	go func() {
		defer v.ticking.Done()
		tick := time.NewTicker(repaintEvery)
		defer tick.Stop()
		for {
			select {
			case <-v.done:
				return
			case <-tick.C:
				v.repaint()
			}
		}
	}()
	return v
}

// end removes the block.
func (v *liveView) end() {
	if v == nil {
		return
	}
	v.mu.Lock()
	v.closed = true
	_ = v.s.print(v.erase())
	v.mu.Unlock()
	close(v.done)
	v.ticking.Wait()
}

// RunStarted implements engine.Observer.
func (v *liveView) RunStarted(run *engine.RunDocument) {
	v.change(func() {
		v.title = fmt.Sprintf("run %d of %s for %s", run.PipelineRunID, run.Pipeline, run.RunDate)
		v.tasks, v.byCode = nil, map[string]*liveTask{}
		for _, t := range run.Tasks {
			task := &liveTask{TaskDocument: t}
			v.tasks = append(v.tasks, task)
			v.byCode[t.Task] = task
		}
	})
}

// TaskStarted implements engine.Observer.
func (v *liveView) TaskStarted(code string, attempt int) {
	v.change(func() {
		if t := v.byCode[code]; t != nil {
			t.Status, t.Attempts, t.since, t.step = "IN_PROGRESS", attempt, time.Now(), ""
		}
	})
}

// TaskStep implements engine.Observer.
func (v *liveView) TaskStep(code, step string) {
	v.change(func() {
		if t := v.byCode[code]; t != nil {
			t.step = step
		}
	})
}

// TaskEnded implements engine.Observer.
func (v *liveView) TaskEnded(doc engine.TaskDocument) {
	v.change(func() {
		if t := v.byCode[doc.Task]; t != nil {
			t.TaskDocument, t.step = doc, ""
		}
	})
}

// RunEnded implements engine.Observer.
func (v *liveView) RunEnded(*engine.RunDocument) {}

// Write puts log lines above the block.
func (v *liveView) Write(line []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.s.print(v.erase() + string(line)); err != nil {
		return 0, err
	}
	return len(line), v.paint()
}

// change is shown by the next repaint: painting each of them would slow down a run of many small tasks.
func (v *liveView) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

func (v *liveView) repaint() {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.paint() // the next one may be shown
}

// erase is what takes the block from the screen.
func (v *liveView) erase() string {
	if v.painted == 0 {
		return ""
	}
	up := fmt.Sprintf("\x1b[%dA\r\x1b[J", v.painted)
	v.painted = 0
	return up
}

func (v *liveView) paint() error {
	if v.closed || v.title == "" {
		return nil
	}
	width, height, err := term.GetSize(int(v.s.file.Fd()))
	if err != nil || width < 20 || height < 5 {
		width, height = 80, 24
	}
	lines := v.lines(height-3, time.Now())
	for i := range lines {
		lines[i] = text.Trim(lines[i], width-1)
	}
	out := v.erase() + strings.Join(lines, "\n") + "\n"
	v.painted = len(lines)
	return v.s.print(out)
}

// lines is the block: at most room tasks, and how many there are in each state.
func (v *liveView) lines(room int, now time.Time) []string {
	counts := map[string]int{}
	for _, t := range v.tasks {
		counts[t.Status]++
	}
	var rows [][]string
	for _, t := range v.shown(room - 1) {
		elapsed := secondsText(t.DurationSeconds)
		if t.Status == "IN_PROGRESS" {
			elapsed = durationText(now.Sub(t.since))
		}
		what := t.step
		if what == "" {
			what = reasonOf(t.TaskDocument)
		}
		rows = append(rows, []string{v.s.state(t.Status), t.Task, orDash(t.Action), countText(t.RowsWritten), elapsed, what})
	}
	var parts []string
	for _, state := range taskStates {
		if n := counts[state.name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state.text))
		}
	}
	head := v.title + ": " + strings.Join(parts, ", ")
	if len(rows) == 0 {
		return []string{head}
	}
	table := v.s.table([]string{"STATE", "TASK", "ACTION", number + "ROWS", number + "TIME", "STEP"}, rows)
	return append([]string{head}, strings.Split(strings.TrimSuffix(table, "\n"), "\n")...)
}

// shown are the tasks that fit: all of them, or first those that run, then those that failed, then the next ones.
func (v *liveView) shown(room int) []*liveTask {
	if len(v.tasks) <= room {
		return v.tasks
	}
	var shown []*liveTask
	for _, state := range []string{"IN_PROGRESS", "FAILED", "PENDING", "SKIPPED", "SUCCESS"} {
		for _, t := range v.tasks {
			if t.Status == state && len(shown) < room {
				shown = append(shown, t)
			}
		}
	}
	return shown
}
