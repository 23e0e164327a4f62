package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// begun is a command that runs in the background of a script.
type begun struct {
	command        *exec.Cmd
	stdout, stderr *awaited
	cancel         context.CancelFunc
}

// background holds the commands of a script by their names.
type background struct{}

func backgroundOf(ts *testscript.TestScript) map[string]*begun {
	return ts.Value(background{}).(map[string]*begun)
}

// begin NAME TASK COMMAND... starts a command and waits until it runs TASK.
func begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: begin NAME TASK COMMAND...")
	}
	program, err := exec.LookPath(filepath.Join(binFolder(ts), args[2]))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	b := &begun{command: exec.CommandContext(ctx, program, args[3:]...), stdout: &awaited{}, stderr: &awaited{}, cancel: cancel}
	b.command.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "ETL_CRAFT_ACTOR", "PG_URL", "PG_SCHEMA"} {
		b.command.Env = append(b.command.Env, name+"="+ts.Getenv(name))
	}
	b.command.Stdout, b.command.Stderr = b.stdout, b.stderr
	ts.Check(b.command.Start())
	ts.Defer(func() {
		if b.command.ProcessState == nil {
			_ = b.command.Process.Kill()
			_ = b.command.Wait()
		}
		cancel()
	})
	backgroundOf(ts)[args[0]] = b
	b.stderr.await(ctx, "task="+args[1]+" ")
}

// ends CODE NAME waits for a command that begin started, which must end with CODE; its output is compared afterwards.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends CODE NAME")
	}
	b := backgroundOf(ts)[args[1]]
	code := 0
	var failed *exec.ExitError
	if err := b.command.Wait(); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	_, _ = io.WriteString(ts.Stdout(), b.stdout.String())
	_, _ = io.WriteString(ts.Stderr(), b.stderr.String())
	if want := args[0]; want != strconv.Itoa(code) {
		ts.Fatalf("exit code %d, want %s\n%s", code, want, b.stderr)
	}
}

// sigkill NAME ends a command that begin started with SIGKILL.
func sigkill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sigkill NAME")
	}
	b := backgroundOf(ts)[args[0]]
	ts.Check(b.command.Process.Signal(syscall.SIGKILL))
	_ = b.command.Wait() // it was killed
}

// awaitrows ROWS URL SQL repeats a query of a PostgreSQL server until it returns the one value ROWS.
func awaitrows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: awaitrows ROWS URL SQL")
	}
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		got, err = rows("pgx", args[1], args[2])
		ts.Check(err)
		if got == args[0]+"\n" {
			return
		}
	}
	ts.Fatalf("the query returned %s, want %s", got, args[0])
}
