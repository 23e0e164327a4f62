package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/engine/store/sqlite"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// doctored is what doctor says of a project without a warehouse, which is one of the failures.
func (b *bench) doctored(fix bool, failures int) *DoctorDocument {
	b.t.Helper()
	b.change = func(c *config.Config) { c.Engine.Path = filepath.Join(b.dir, "engine.db") }
	doc, err := b.engine().Doctor(context.Background(), DoctorRequest{Fix: fix, WarehouseError: errors.New("none in this test"),
		Pending: func(context.Context) ([]string, []string, error) { return nil, nil, nil }})
	if !fault.Has(err, fault.CheckFailed) || doc.Failures != failures {
		b.t.Fatalf("%v %+v", err, doc)
	}
	return doc
}

func (b *bench) wantCheck(doc *DoctorDocument, area, check, status string, words ...string) {
	b.t.Helper()
	for _, c := range doc.Checks {
		if c.Area != area || c.Check != check {
			continue
		}
		if c.Status != status {
			b.t.Errorf("%s %s is %s: %s; want %s", area, check, c.Status, c.Message, status)
		}
		for _, w := range words {
			if !strings.Contains(c.Message, w) {
				b.t.Errorf("%s %s: %q does not say %q", area, check, c.Message, w)
			}
		}
		return
	}
	b.t.Errorf("there is no check %s %s", area, check)
}

func TestDoctorComparesClocks(t *testing.T) {
	b := newBench(t)
	defer func() { hostClock = time.Now }()
	for _, c := range []struct {
		host   time.Duration
		status string
		words  string
	}{
		{0, DoctorOK, "as this host's"},
		{3 * time.Second, DoctorOK, "as this host's"},
		{10 * time.Second, DoctorWarn, "the Engine DB is 10s behind this host"},
		{-10 * time.Second, DoctorWarn, "the Engine DB is 10s ahead of this host"},
	} {
		hostClock = func() time.Time { return time.Now().Add(c.host) }
		b.wantCheck(b.doctored(false, 1), areaEngine, "clock", c.status, c.words)
	}
}

func TestDoctorWantsRoom(t *testing.T) {
	b := newBench(t)
	defer func(was int64) { little = was }(little)
	little = 1 << 62
	doc := b.doctored(false, 1)
	b.wantCheck(doc, areaEngine, "storage", DoctorWarn, "engine.db: only ", " MB are free on its disk")
	b.wantCheck(doc, areaFolders, "logs", DoctorWarn, " MB are free")
}

func TestDoctorTellsOfMuchHistory(t *testing.T) {
	b := newBench(t)
	b.apply("a")
	b.mustRun(RunRequest{})
	b.wantCheck(b.doctored(false, 1), areaEngine, "history", DoctorOK, "about 1 attempts")
	defer func(was int64) { manyAttempts = was }(manyAttempts)
	manyAttempts = 0
	b.wantCheck(b.doctored(false, 1), areaEngine, "history", DoctorWarn, "there are about 1 attempts")
}

// A process that only hangs, and whose lease has not run out, is not taken for dead.
func TestDoctorLeavesTheLivingAlone(t *testing.T) {
	b := newBench(t)
	b.apply("a")
	end := make(chan struct{})
	b.script.on("a", until(end))
	done := make(chan *RunDocument)
	go func() {
		doc, err := b.run(RunRequest{})
		if err != nil {
			t.Error(err)
		}
		done <- doc
	}()
	<-b.script.started
	doc := b.doctored(true, 1)
	b.wantCheck(doc, areaAbandoned, "attempts", DoctorOK, "0 ended as LOST, 1 run")
	b.wantCheck(doc, areaAbandoned, "runs", DoctorOK, "0 released")
	if len(doc.Fixed) > 0 {
		t.Errorf("fixed: %v", doc.Fixed)
	}
	close(end)
	wantStates(t, <-done, store.Success, "a=SUCCESS")

	// Nothing but the command itself is recorded.
	if n := b.value("SELECT COUNT(*) FROM AUD_ACTIONS WHERE COMMAND = 'doctor'"); n != "1" {
		t.Errorf("%s commands", n)
	}
	b.doctored(false, 1)
	if n := b.value("SELECT COUNT(*) FROM AUD_ACTIONS WHERE COMMAND = 'doctor'"); n != "1" {
		t.Errorf("%s commands after one without --fix", n)
	}
}

func TestDoctorFindsADamagedFile(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	if _, err := b.store.Backend().Writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(b.dir, "engine.db"))
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for i := len(file) - 3*page; i < len(file); i++ {
		file[i] = 0xa5
	}
	b.write("damaged.db", string(file))
	damaged, err := sqlite.Open(ctx, filepath.Join(b.dir, "damaged.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = damaged.Close() })
	b.store = damaged
	b.wantCheck(b.doctored(false, 2), areaEngine, "storage", DoctorFail, "the file is damaged: ")
}
