package duckdb

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// turn lets the etl-craft processes of a machine share a DuckDB file, which only one process can have open. Two empty
// files beside it carry flock locks: the holder has the first exclusively, whoever waits has the second shared, so that
// the holder sees it and gives the file away when its sessions have ended.
type turn struct {
	holderPath, waiterPath string
	holder                 *os.File
	gave                   time.Time
}

func newTurn(path string) *turn {
	return &turn{holderPath: path + ".turn", waiterPath: path + ".wait"}
}

// politeness is how long a process that gave the file away leaves it to those that waited.
const politeness = 60 * time.Millisecond

func (t *turn) take(ctx context.Context) error {
	f, err := open(t.holderPath)
	if err != nil {
		return err
	}
	if time.Since(t.gave) > politeness && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		t.holder = f
		return nil
	}
	waiter, err := open(t.waiterPath)
	if err != nil {
		_ = f.Close()
		return err
	}
	defer func() { _ = waiter.Close() }()
	_ = syscall.Flock(int(waiter.Fd()), syscall.LOCK_SH)
	if rest := politeness - time.Since(t.gave); rest > 0 {
		time.Sleep(rest)
	}
	for {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			t.holder = f
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			_ = f.Close()
			return context.Cause(ctx)
		}
	}
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
