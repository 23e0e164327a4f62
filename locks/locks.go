// Package locks hands out locks that every process of one Engine DB sees: target locks, the lock that proves a
// process alive, the lock of migrations. A lock is freed by the death of its holder, never by a timer.
//
// locks/sqlite uses flock(2) on files beside the Engine DB, locks/postgres session advisory locks on one dedicated
// connection. locks/lockstest is the suite that both pass.
package locks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Key names a lock: the hex SHA-256 of its kind and name.
type Key string

// TargetKey is the lock of one warehouse table. identity is what the warehouse says it is, so that two host names of
// one server make one lock; name is the canonical qualified name, folded as that warehouse folds.
func TargetKey(identity, name string) Key { return key("target", identity, name) }

// FenceKey numbers the lock that an action's own transaction takes in the warehouse. It is not the target's key, since
// Engine DB and warehouse may be one database, where the two sessions of an attempt would wait for each other.
func FenceKey(identity, name string) Key { return key("fence", identity, name) }

// OwnerKey is held by a living process for as long as it owns runs: whoever obtains it knows that the owner is dead.
func OwnerKey(owner string) Key { return key("owner", owner) }

// MigrateKey serialises migrations of one Engine DB.
func MigrateKey() Key { return key("migrate") }

// BackfillKey is held by the process that carries out a backfill of a pipeline. engine tells Engine DBs in one server apart.
func BackfillKey(engine, pipeline string) Key { return key("backfill", engine, pipeline) }

func key(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return Key(hex.EncodeToString(h.Sum(nil)))
}

// Holder says who holds a lock and for what; people read it.
type Holder struct {
	Host          string    `json:"host"`
	PID           int       `json:"pid"`
	What          string    `json:"what"` // "target dw.sales.orders"
	Pipeline      string    `json:"pipeline,omitempty"`
	Task          string    `json:"task,omitempty"`
	PipelineRunID int64     `json:"pipeline_run_id,omitempty"`
	TaskRunID     int64     `json:"task_run_id,omitempty"`
	Since         time.Time `json:"since"`
}

// String is "pipeline SALES, task load_orders (host h1, pid 4711) since 2026-09-01 05:00:00 UTC", without what is not
// known.
func (h Holder) String() string {
	var parts []string
	if h.Pipeline != "" {
		parts = append(parts, "pipeline "+h.Pipeline)
	}
	if h.Task != "" {
		parts = append(parts, "task "+h.Task)
	}
	who := strings.Join(parts, ", ")
	if who == "" {
		who = "a process"
	}
	return fmt.Sprintf("%s (host %s, pid %d) since %s", who, h.Host, h.PID, h.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// Locker gives locks to this process. It is safe for concurrent use; a key that this process holds already is waited
// for like any other.
type Locker interface {
	// Lock waits for key at most wait, 0 meaning until ctx ends. A lock not obtained is a *fault.Error with code
	// LOCK_TIMEOUT that names the holder, also when ctx's deadline ended the wait. Host, PID and Since are filled in.
	Lock(ctx context.Context, key Key, holder Holder, wait time.Duration) (Lock, error)
	// TryLock is Lock without waiting; nil, nil when the key is held by somebody.
	TryLock(ctx context.Context, key Key, holder Holder) (Lock, error)
	// Held lists the locks that are really held now, by any process, the oldest first.
	Held(ctx context.Context) ([]Holder, error)
	// Close frees every lock of this Locker.
	Close() error
}

// Lock is one held lock.
type Lock interface {
	// Check asks the server or the file whether the lock is still held; a *fault.Error with code LOCK_LOST when not.
	Check(ctx context.Context) error
	// Lost is closed when the lock is known to be lost.
	Lost() <-chan struct{}
	// Release frees the lock; it may be called twice.
	Release() error
}

// Int64 is the first half of the key, for locks that a database numbers. Two keys that share it only wait for each
// other.
func (k Key) Int64() int64 {
	n, err := strconv.ParseUint(string(k[:16]), 16, 64)
	if err != nil {
		panic("not a key: " + string(k))
	}
	return int64(n)
}
