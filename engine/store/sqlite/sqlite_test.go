package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

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
