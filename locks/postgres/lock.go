package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/internal/line"
)

var errNotHeld = errors.New("the server does not know it; a connection pooler in between needs `direct:` in the engine's configuration")

type lock struct {
	locker  *locker
	session *session
	key     locks.Key
	number  int64
	holder  locks.Holder

	release  sync.Once
	released atomic.Bool
}

// Check asks pg_locks. A lock that is not there means that the session is not what it was, so that all its locks count
// as lost.
func (k *lock) Check(ctx context.Context) error {
	if k.released.Load() {
		return line.Lost(k.holder, errors.New("it was released"))
	}
	err := k.session.do(ctx, func(ctx context.Context) error {
		var held bool
		err := k.session.conn.QueryRow(ctx, sqlHasLock, k.number, k.session.mark).Scan(&held)
		if err == nil && !held {
			k.session.lose(errNotHeld)
		}
		return err
	})
	if why := k.session.why(); why != nil {
		return line.Lost(k.holder, why)
	}
	if err != nil {
		return fmt.Errorf("check the lock of %s: %w", k.holder.What, err)
	}
	return nil
}

func (k *lock) Lost() <-chan struct{} { return k.session.lost }

// Release of a lock that is lost already is no error: the server has freed it.
func (k *lock) Release() (err error) {
	k.release.Do(func() {
		k.released.Store(true)
		err = k.session.do(context.Background(), func(ctx context.Context) error {
			return k.session.free(ctx, k.locker.sql, k.key, k.number)
		})
		k.locker.Leave(k.key)
		if k.session.why() != nil && !errors.Is(err, errNotHeld) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("release the lock of %s: %w", k.holder.What, err)
		}
	})
	return err
}
