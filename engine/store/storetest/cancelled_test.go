package storetest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestCancelledRead: whatever the driver says when its context ends, the caller learns that it was the context.
func TestCancelledRead(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		r, _ := admitted(t, s)
		for i := range 400 {
			cancelled, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Duration(i)*5*time.Microsecond, cancel) // at every moment of a read or a write
			if _, err := s.TaskRuns(cancelled, r.ID); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("%v", err)
			}
			if err := s.SyncTasks(cancelled, r.ID); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("%v", err)
			}
		}
	})
}
