package sqlite

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/locks/lockstest"
)

var backend = lockstest.Backend{
	New:  func(t *testing.T) string { return filepath.Join(t.TempDir(), "engine.db.locks") },
	Open: Open,
	Break: func(t *testing.T, place string, key locks.Key) {
		if err := os.Remove(filepath.Join(place, string(key)+suffix)); err != nil {
			t.Fatal(err)
		}
	},
}

func TestMain(m *testing.M) { lockstest.Main(m, backend) }

func TestLocks(t *testing.T) { lockstest.Run(t, backend) }

func TestFilesAreTheOwnersAlone(t *testing.T) {
	l, path, k := openAndLock(t)
	defer l.Close()
	for file, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", file, got, want)
		}
	}
	if err := k.Release(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatalf("the file went with the lock: %v", err)
	}
	if info.Size() != 0 {
		t.Error("a released lock names a holder")
	}
}

func TestCheckNoticesWhatHappenedToTheFile(t *testing.T) {
	for name, happen := range map[string]func(path string) error{
		"removed":        os.Remove,
		"folder removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"moved":          func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("{}"), 0o600)
		},
		"another holder": func(path string) error { return os.WriteFile(path, []byte(`{"pid":1}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			l, path, k := openAndLock(t)
			defer l.Close()
			if err := k.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := happen(path); err != nil {
				t.Fatal(err)
			}
			if err := k.Check(t.Context()); !fault.Has(err, fault.LockLost) {
				t.Errorf("Check: %v", err)
			}
			<-k.Lost()
		})
	}
}

func TestCheckNoticesAnUnlockedFile(t *testing.T) {
	l, _, k := openAndLock(t)
	defer l.Close()
	if err := flock(k.(*lock).file, syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := k.Check(t.Context()); !fault.Has(err, fault.LockLost) {
		t.Errorf("Check: %v", err)
	}
}

// Somebody who looks whether a key is held is not taken for its holder.
func TestProbeIsNoHolder(t *testing.T) {
	l, path, k := openAndLock(t)
	defer l.Close()
	if err := k.Release(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var prober sync.WaitGroup
	prober.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := tryFlock(file, shared); err != nil {
				t.Error(err)
			}
			if err := flock(file, syscall.LOCK_UN); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 2000 {
		k, err := l.TryLock(t.Context(), k.(*lock).key, locks.Holder{What: "target x"})
		if err != nil || k == nil {
			t.Errorf("try %d of a free key: %v, %v", i, k, err)
			break
		}
		if err := k.Release(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	prober.Wait()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "engine.db.locks")); !fault.Has(err, fault.EngineUnreachable) {
		t.Errorf("Open: %v", err)
	}
}

func openAndLock(t *testing.T) (l locks.Locker, path string, k locks.Lock) {
	t.Helper()
	dir := backend.New(t)
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	key := locks.TargetKey("warehouse", t.Name())
	k, err = l.Lock(t.Context(), key, locks.Holder{What: "target x"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l, filepath.Join(dir, string(key)+suffix), k
}
