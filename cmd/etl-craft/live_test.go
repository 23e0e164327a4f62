package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine"
)

// view is a liveView on a file, which nothing repaints by itself.
func view(t *testing.T, codes ...string) (*liveView, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "screen")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	v := &liveView{s: newScreen(file), done: make(chan struct{})}
	run := &engine.RunDocument{Pipeline: "SALES", PipelineRunID: 97, RunDate: "2026-09-01"}
	for _, code := range codes {
		run.Tasks = append(run.Tasks, engine.TaskDocument{Task: code, Status: "PENDING"})
	}
	v.RunStarted(run)
	return v, path
}

func TestLiveViewShowsStates(t *testing.T) {
	v, _ := view(t, "first", "second", "third")
	rows, seconds := int64(1234), 2.5
	v.TaskEnded(engine.TaskDocument{Task: "first", Status: "SUCCESS", RowsWritten: &rows, DurationSeconds: &seconds})
	v.TaskStarted("second", 1)
	v.TaskStep("second", "classify")
	want := []string{
		"run 97 of SALES for 2026-09-01: 1 succeeded, 1 running, 1 waiting",
		"STATE        TASK    ACTION   ROWS   TIME  STEP",
		"SUCCESS      first   -       1,234  2.50s",
		"IN_PROGRESS  second  -           -  3.00s  classify",
		"PENDING      third   -           -      -",
	}
	if diff := cmp.Diff(want, v.lines(10, v.byCode["second"].since.Add(3*time.Second))); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestLiveViewKeepsRunningTasksInASmallWindow(t *testing.T) {
	v, _ := view(t, "a", "b", "c", "d", "e")
	v.TaskEnded(engine.TaskDocument{Task: "a", Status: "SUCCESS"})
	v.TaskEnded(engine.TaskDocument{Task: "b", Status: "FAILED"})
	v.TaskStarted("e", 1)
	var shown []string
	for _, task := range v.shown(3) {
		shown = append(shown, task.Task)
	}
	if diff := cmp.Diff([]string{"e", "b", "c"}, shown); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	if n := len(v.lines(4, time.Now())); n != 5 { // head, headings, three tasks
		t.Errorf("%d lines", n)
	}
}

func TestLogLinesStayAboveTheBlock(t *testing.T) {
	v, path := view(t, "only")
	v.repaint()
	if _, err := v.Write([]byte("WARN something\n")); err != nil {
		t.Fatal(err)
	}
	v.ticking.Go(func() { <-v.done })
	v.end()
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block := "run 97 of SALES for 2026-09-01: 1 waiting\nSTATE    TASK  ACTION  ROWS  TIME  STEP\nPENDING  only  -          -     -\n"
	erase := "\x1b[3A\r\x1b[J"
	if diff := cmp.Diff(block+erase+"WARN something\n"+block+erase, string(written)); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}
