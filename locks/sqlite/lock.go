package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/internal/line"
)

type lock struct {
	locker *locker
	key    locks.Key
	holder locks.Holder
	text   []byte // what the file says while the lock is held
	path   string

	mu   sync.Mutex
	file *os.File // nil after the release
	gone error    // why the lock is lost
	lost chan struct{}
}

// Check fails when the file was replaced, when nobody holds its lock, or when somebody else wrote to it.
func (k *lock) Check(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil && k.gone == nil {
		return line.Lost(k.holder, errors.New("it was released"))
	}
	if k.gone == nil {
		why, err := k.inspect()
		if err != nil {
			return fmt.Errorf("check the lock of %s: %w", k.holder.What, err)
		}
		if why == nil {
			return nil
		}
		k.lose(why)
	}
	return line.Lost(k.holder, k.gone)
}

// inspect says why the lock is lost, nil when it is held; err when that cannot be known.
func (k *lock) inspect() (why, err error) {
	same, err := stillAt(k.path, k.file)
	if err != nil {
		return nil, err
	}
	if !same {
		return fmt.Errorf("%s was removed or replaced", k.path), nil
	}
	probe, err := os.Open(k.path)
	if err != nil {
		return nil, err
	}
	defer unlock(probe)
	free, err := tryFlock(probe, shared)
	if err != nil {
		return nil, err
	}
	if free {
		return fmt.Errorf("%s is not locked", k.path), nil
	}
	text, err := io.ReadAll(probe)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(text, k.text) {
		return fmt.Errorf("%s names another holder", k.path), nil
	}
	return nil, nil
}

func (k *lock) lose(why error) {
	if k.gone == nil {
		k.gone = why
		close(k.lost)
	}
}

func (k *lock) Lost() <-chan struct{} { return k.lost }

func (k *lock) Release() error { return k.end(false) }

// end frees the lock; taken says that its holder still counts on it.
func (k *lock) end(taken bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	if taken {
		k.lose(line.ErrClosed)
	}
	err := errors.Join(rewrite(k.file, nil), unlock(k.file))
	k.file = nil
	k.locker.mu.Lock()
	delete(k.locker.held, k)
	k.locker.mu.Unlock()
	k.locker.Leave(k.key)
	if err != nil {
		return fmt.Errorf("release the lock of %s: %w", k.holder.What, err)
	}
	return nil
}
