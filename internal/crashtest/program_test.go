// Package crashtest runs the built program as separate processes on real databases and lets happen to it what can
// happen: it is killed at every point of its work and behind every commit in the Engine DB, paused while others work, cut off
// from its warehouse during COMMIT, robbed of its locks, interrupted, and run side by side with others, of which some want the
// same. Afterwards target, counts and decisions must be those of a run that nothing disturbed.
package crashtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	scratch string // a folder for the whole package
	program string
)

// patience is how long a test waits for something that must happen: less than a lease, so that nothing passes because a
// lease ran out.
const patience = 40 * time.Second

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "crashtest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	program = filepath.Join(scratch, "etl-craft")
	build := exec.Command("go", "build", "-tags", "faultpoints", "-o", program, "../../cmd/etl-craft")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	// The tests mostly wait for processes, and those for disks and each other.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("4")
	}
	defer dropTemplates()
	return m.Run()
}

// process is one run of the program.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
	patience       time.Duration
}

// output is what a process has printed; it can be read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts the program in the project's folder, with a fault "kill=POINT", "stop=POINT" or none. An argument
// "trace=FILE" is the file that gets the points it passes.
func (p project) start(t *testing.T, fault string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "ETL_CRAFT_FAULT="+fault)
	for _, a := range args {
		if trace, ok := strings.CutPrefix(a, "trace="); ok {
			cmd.Env = append(cmd.Env, "ETL_CRAFT_FAULT_TRACE="+trace)
			continue
		}
		cmd.Args = append(cmd.Args, a)
	}
	return p.launch(t, cmd)
}

// startPasted starts a command that the program has printed, as a person who pastes it does.
func (p project) startPasted(t *testing.T, line string) *process {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return p.launch(t, cmd)
}

func (p project) launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	r := &process{t: t, cmd: cmd, ended: make(chan struct{}), patience: patience}
	if p.far != nil {
		r.patience = farPatience
	}
	r.cmd.Dir = p.dir
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // ProcessState says it
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.kill()
		<-r.ended
	})
	return r
}

// startStopped starts the program and waits until it has stopped itself at point.
func (p project) startStopped(t *testing.T, point string, args ...string) *process {
	t.Helper()
	r := p.start(t, "stop="+point, args...)
	eventually(t, "the program stops at "+point, func() bool {
		if r.over() {
			t.Fatalf("the program ended and did not stop at %s: %s", point, r)
		}
		return r.state() == "T"
	})
	return r
}

// etl runs the program to its end, which must be a success, and returns what it printed.
func (p project) etl(t *testing.T, args ...string) string {
	t.Helper()
	return p.start(t, "", args...).succeed()
}

// wait returns the exit code, -1 when the program was killed.
func (r *process) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(r.patience):
		r.t.Fatalf("still running after %s: %s", r.patience, r)
	}
	return r.cmd.ProcessState.ExitCode()
}

func (r *process) succeed() string {
	r.t.Helper()
	if code := r.wait(); code != 0 {
		r.t.Fatalf("exit code %d, want 0: %s", code, r)
	}
	return r.stdout.String()
}

// fail expects an exit code and a text in what the program printed.
func (r *process) fail(code int, text string) {
	r.t.Helper()
	if got := r.wait(); got != code || !r.printed(text) {
		r.t.Fatalf("exit code %d, want %d and %q: %s", got, code, text, r)
	}
}

// ousted expects the error of a process that has lost its locks, its attempt or its run to another one. Which of them it
// notices first is a matter of moments.
func (r *process) ousted() {
	r.t.Helper()
	if code := r.wait(); code != 1 && code != 5 || !slices.ContainsFunc([]string{"LOCK_LOST", "STALE_ATTEMPT", "RUN_OWNED", "RUN_ENDED"}, r.printed) {
		r.t.Fatalf("exit code %d, want 1 or 5 and the error of a process that was ousted: %s", code, r)
	}
}

func (r *process) printed(text string) bool {
	return strings.Contains(r.stdout.String()+r.stderr.String(), text)
}

func (r *process) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (r *process) kill() { r.signal(syscall.SIGKILL) }

// goOn lets a stopped program go on.
func (r *process) goOn() { r.signal(syscall.SIGCONT) }

func (r *process) signal(s os.Signal) {
	if err := r.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Error(err)
	}
}

// state is the process's state as the kernel names it: T is stopped.
func (r *process) state() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:min(1, len(after))]
}

// hint is the command that an error ends with.
func (r *process) hint() string {
	r.t.Helper()
	_, hint, found := strings.Cut(r.stderr.String(), "hint: ")
	if !found {
		r.t.Fatalf("no hint: %s", r)
	}
	line, _, _ := strings.Cut(hint, "\n")
	return line
}

// String may be called when the program has ended, or to say why the test does.
func (r *process) String() string {
	line := strings.Join(r.cmd.Args[1:], " ")
	if !r.over() {
		r.kill()
		<-r.ended
	}
	return fmt.Sprintf("etl-craft %s\n%s%s", line, r.stdout.String(), r.stderr.String())
}

// eventually waits until something holds that must come to hold.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
