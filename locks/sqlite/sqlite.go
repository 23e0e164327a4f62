// Package sqlite keeps the locks of a SQLite Engine DB as flock(2) locks on files beside it, one file per key. The
// kernel frees the locks of a dead process. The files are never removed: a process that waits on a removed file would
// hold a lock that nobody else can see.
package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/internal/line"
)

const (
	suffix   = ".lock"
	maxPause = 100 * time.Millisecond
)

type locker struct {
	*line.Line
	dir string

	mu     sync.Mutex
	held   map[*lock]struct{}
	closed bool
}

// Open returns the locks kept in dir, which it makes when it is missing. dir must be on a local file system.
func Open(dir string) (locks.Locker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.EngineUnreachable, "the folder of the locks cannot be made: %w", err)
	}
	l := &locker{dir: dir, held: map[*lock]struct{}{}}
	l.Line = line.New(maxPause, line.Source{Try: l.try, HolderOf: l.holderOf})
	return l, nil
}

func (l *locker) path(key locks.Key) string { return filepath.Join(l.dir, string(key)+suffix) }

func (l *locker) try(_ context.Context, key locks.Key, holder locks.Holder) (locks.Lock, error) {
	path := l.path(key)
	file, err := openLocked(path)
	if file == nil {
		return nil, err
	}
	holder.Since = time.Now().UTC()
	text, err := json.Marshal(holder)
	if err == nil {
		err = rewrite(file, text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the holder of %s: %w", path, err), unlock(file))
	}

	k := &lock{locker: l, key: key, holder: holder, text: text, path: path, file: file, lost: make(chan struct{})}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.held[k] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		return nil, errors.Join(line.ErrClosed, unlock(file))
	}
	return k, nil
}

func (l *locker) holderOf(_ context.Context, key locks.Key) *locks.Holder {
	h, err := heldBy(l.path(key))
	if err != nil {
		return nil
	}
	return h
}

func (l *locker) Held(context.Context) ([]locks.Holder, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("list the locks: %w", err)
	}
	var held []locks.Holder
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		h, err := heldBy(filepath.Join(l.dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("list the locks: %w", err)
		}
		if h != nil {
			held = append(held, *h)
		}
	}
	slices.SortStableFunc(held, func(a, b locks.Holder) int { return a.Since.Compare(b.Since) })
	return held, nil
}

func (l *locker) Close() error {
	l.Line.Close()
	l.mu.Lock()
	l.closed = true
	held := make([]*lock, 0, len(l.held))
	for k := range l.held {
		held = append(held, k)
	}
	l.mu.Unlock()

	var errs []error
	for _, k := range held {
		errs = append(errs, k.end(true))
	}
	return errors.Join(errs...)
}

// heldBy says who holds the lock of the file, nil when nobody does.
func heldBy(path string) (*locks.Holder, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unlock(file)
	// A free file is empty unless its holder died. Not probing empty files keeps out of the way of those who lock them.
	if info, err := file.Stat(); err != nil || info.Size() == 0 {
		return nil, err
	}
	free, err := tryFlock(file, shared)
	if free || err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var h locks.Holder
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &h, nil
}
