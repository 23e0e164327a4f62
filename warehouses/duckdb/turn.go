package duckdb

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// turn lets the etl-craft processes of a machine share a DuckDB file, which only one process can have open. Two files
// beside it carry flock locks: the holder has the first exclusively and has written there who it is; whoever waits has the
// second shared, so that the holder sees it and gives the file away when its sessions have ended.
type turn struct {
	path, holderPath, waiterPath string

	wait   time.Duration // 0 is as long as the context allows
	log    *slog.Logger
	holder *os.File
	gave   time.Time
}

func newTurn(o Options) *turn {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &turn{path: o.Path, holderPath: o.Path + ".turn", waiterPath: o.Path + ".wait", wait: o.Wait, log: log}
}

const (
	politeness = 60 * time.Millisecond // how long a process that gave the file away leaves it to those that waited
	turnPoll   = 10 * time.Millisecond
	silence    = time.Second // how long a wait is not worth a word
)

// take waits for the file. It fails with LOCK_TIMEOUT, which names the holder, when that takes longer than allowed.
func (t *turn) take(ctx context.Context) error {
	f, err := open(t.holderPath)
	if err != nil {
		return err
	}
	if time.Since(t.gave) <= politeness || !t.obtain(f) {
		err = t.queue(ctx, f)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	t.holder = f
	return nil
}

// obtain takes the lock if it is free, and writes who has it, for others to read.
func (t *turn) obtain(f *os.File) bool {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	who := fmt.Sprintf("process %d on host %s since %s", os.Getpid(), host, time.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(who), 0) // the lock holds without it
	}
	return true
}

func (t *turn) queue(ctx context.Context, f *os.File) error {
	waiter, err := open(t.waiterPath)
	if err != nil {
		return err
	}
	defer func() { _ = waiter.Close() }()
	_ = syscall.Flock(int(waiter.Fd()), syscall.LOCK_SH)
	if rest := politeness - time.Since(t.gave); rest > 0 {
		time.Sleep(rest)
	}
	began, told := time.Now(), false
	for !t.obtain(f) {
		waited := time.Since(began)
		if waited > silence && !told {
			told = true
			t.log.Info(fmt.Sprintf("waits for the DuckDB file %s, which %s has open", t.path, holderOf(f)))
		}
		if t.wait > 0 && waited >= t.wait {
			return t.timeout(f, waited)
		}
		select {
		case <-time.After(turnPoll):
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return t.timeout(f, time.Since(began))
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

func (t *turn) timeout(f *os.File, waited time.Duration) error {
	return fault.New(fault.LockTimeout, "the DuckDB file %s was not free within %s: %s has it open", t.path, waited.Round(time.Millisecond), holderOf(f)).
		WithHint("run it again when that is done, or raise orchestration.lock_wait_seconds")
}

// holderOf is what the holder of the lock wrote.
func holderOf(f *os.File) string {
	text := make([]byte, 200)
	n, _ := f.ReadAt(text, 0)
	if n == 0 {
		return "another process"
	}
	return string(text[:n])
}

func (t *turn) give() {
	_ = t.holder.Close()
	t.holder, t.gave = nil, time.Now()
}

// wanted reports whether another process waits.
func (t *turn) wanted() bool {
	f, err := open(t.waiterPath)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.New(fault.WarehouseDown, "the file %s beside the DuckDB file cannot be opened: %w", path, err)
	}
	return f, nil
}
