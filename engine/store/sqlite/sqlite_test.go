package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store/sqlite"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	if err := os.WriteFile(other, []byte("this is no database, however long the text in it may be"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fault.Code{
		other:                            fault.EngineUnreachable,
		dir:                              fault.EngineUnreachable,
		empty:                            fault.EngineNotMigrated,
		filepath.Join(dir, "missing.db"): fault.EngineNotMigrated,
		filepath.Join(dir, "no", "x.db"): fault.EngineNotMigrated,
		filepath.Join(dir, "a?b#c %.db"): fault.EngineNotMigrated,
	} {
		if _, err := sqlite.Open(context.Background(), path); !fault.Has(err, want) {
			t.Errorf("%s: want %s, got %v", path, want, err)
		}
	}
	if _, err := sqlite.OpenToMigrate(context.Background(), filepath.Join(dir, "no", "x.db")); !fault.Has(err, fault.EngineUnreachable) {
		t.Error(err)
	}
}

func TestAnyFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b#c %41&mode=ro.db")
	s, err := sqlite.OpenToMigrate(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Backend().Writer.Exec("CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backend().Reader.Exec("DELETE FROM x"); err == nil {
		t.Error("the reader writes")
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Fatal("another file was written", err)
	}
}

// The file of a copy, or one that was just made, is no WAL yet. SQLite's busy timeout does not cover the change to it while
// another process writes, or makes the same change.
func TestOpenWaitsForWriterOfFileThatIsNoWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.db")
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Exec("CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	writing, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { done <- writing.Commit() })

	s, err := sqlite.OpenToMigrate(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var mode string
	if err := s.Backend().Writer.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Error(mode, err)
	}
}

func TestManyMakeTheFileAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "engine.db")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := sqlite.OpenToMigrate(t.Context(), path)
				if err != nil {
					t.Error(err)
				} else if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
