package engine

import (
	"context"
	"path/filepath"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
)

const (
	muchSkew    = 5 * time.Second
	longHistory = 366 * 24 * time.Hour
	// cheapCheck is up to which size a file is checked from end to end.
	cheapCheck = 100_000_000
)

var (
	// hostClock is this host's clock.
	hostClock = time.Now
	// manyAttempts is how many make status and history of little use.
	manyAttempts int64 = 5_000_000
)

// engineDB looks at the Engine DB and reads the pipelines out of it, for the checks that follow.
func (d *doctor) engineDB(ctx context.Context) {
	migrated := true
	if err := d.req.StoreError; err != nil {
		migrated = !fault.Has(err, fault.EngineNotMigrated) && !fault.Has(err, fault.EngineNewer)
		if f := fault.As(err); f.Code == fault.Internal { // it answers, but not to this user
			err = f.WithHint("as a user who may read it: etl-craft doctor --grants prints what is needed")
		}
		d.failed(areaEngine, "connection", err)
		d.why = "the Engine DB cannot be used"
	} else {
		d.ok(areaEngine, "connection", "%s", d.e.Store.Backend().Where)
	}
	if d.why != "" && migrated {
		d.skip(areaEngine, d.why, "migrations")
	} else {
		d.migrations(ctx)
	}
	if d.why != "" {
		d.skip(areaEngine, d.why, engineChecks...)
		return
	}
	d.rights(ctx)
	d.clock(areaEngine, "the Engine DB", func() (time.Time, error) { return d.e.Store.Now(ctx) })
	if err := d.lock(ctx); err != nil {
		d.failed(areaEngine, "locks", err)
	} else {
		d.ok(areaEngine, "locks", "they can be taken")
	}
	d.storage(ctx)
	d.pipelines(ctx)
}

// lock takes a lock that nobody else wants.
func (d *doctor) lock(ctx context.Context) error {
	if d.req.LockerError != nil {
		return d.req.LockerError
	}
	lock, err := d.e.Locker.TryLock(ctx, locks.OwnerKey("doctor:"+d.e.id), locks.Holder{What: "doctor"})
	if err == nil && lock != nil {
		return lock.Release()
	}
	if path := d.e.Config.Engine.Path; err != nil && path != "" {
		return fault.As(err).WithHint("check owner and permissions of %s.locks", path)
	}
	return err
}

func (d *doctor) migrations(ctx context.Context) {
	engine, project, err := d.req.Pending(ctx)
	switch {
	case err != nil:
		d.failed(areaEngine, "migrations", err)
	case len(engine) > 0:
		d.add(DoctorFail, areaEngine, "migrations", "etl-craft migrate", "not applied yet: %s", some(append(engine, project...)))
	case len(project) > 0:
		d.warn(areaEngine, "migrations", "etl-craft migrate", "of the project, not applied yet: %s", some(project))
	default:
		d.ok(areaEngine, "migrations", "all are applied")
	}
}

func (d *doctor) rights(ctx context.Context) {
	if path := d.e.Config.Engine.Path; path != "" {
		for _, p := range []string{path, filepath.Dir(path)} { // SQLite's own files are made beside it
			if err := writable(p); err != nil {
				d.add(DoctorFail, areaEngine, "privileges", "check owner and permissions", "%v", err)
				return
			}
		}
		if d.private(areaEngine, "privileges", path, "can be read by others") {
			d.ok(areaEngine, "privileges", "the file can be written, and read by its owner only")
		}
		return
	}
	r, err := d.e.Store.Rights(ctx)
	if err != nil {
		d.failed(areaEngine, "privileges", err)
		return
	}
	if len(r.Missing) > 0 {
		d.add(DoctorFail, areaEngine, "privileges", "etl-craft doctor --grants prints what is needed", "the user %s lacks %s", r.User, some(r.Missing))
		return
	}
	may := "work on runs"
	if r.Purge {
		may += ", purge"
	}
	if r.Migrate {
		may += ", make tables"
	}
	d.ok(areaEngine, "privileges", "the user %s may %s", r.User, may)
}

// clock compares a server's clock with the host's, which only logs and the names of files go by.
func (d *doctor) clock(area, whose string, ask func() (time.Time, error)) {
	before := hostClock()
	theirs, err := ask()
	after := hostClock()
	if err != nil {
		d.failed(area, "clock", err)
		return
	}
	var skew time.Duration // 0 where their clock may have shown the time between the two looks at ours
	if theirs.Before(before) {
		skew = theirs.Sub(before)
	} else if theirs.After(after) {
		skew = theirs.Sub(after)
	}
	switch {
	case skew >= muchSkew:
		d.warn(area, "clock", "let both be set by NTP", "%s is %s ahead of this host", whose, skew.Round(time.Second))
	case skew <= -muchSkew:
		d.warn(area, "clock", "let both be set by NTP", "%s is %s behind this host", whose, -skew.Round(time.Second))
	default:
		d.ok(area, "clock", "as this host's")
	}
}

func (d *doctor) storage(ctx context.Context) {
	e, err := d.e.Store.Extent(ctx)
	if err != nil {
		d.failed(areaEngine, "storage", err)
		d.skip(areaEngine, "its size is not known", "history")
		return
	}
	if path := d.e.Config.Engine.Path; path != "" {
		d.file(ctx, path, e.Bytes)
	} else {
		d.ok(areaEngine, "storage", "%d MB", e.Bytes/1_000_000)
	}
	now, err := d.e.Store.Now(ctx)
	const hint = "etl-craft purge --older-than 365d --dry-run"
	switch {
	case err != nil:
		d.failed(areaEngine, "history", err)
	case e.Oldest == nil:
		d.ok(areaEngine, "history", "nothing has run yet")
	case e.Attempts > manyAttempts:
		d.warn(areaEngine, "history", hint, "there are about %d attempts", e.Attempts)
	case now.Sub(*e.Oldest) > longHistory:
		d.warn(areaEngine, "history", hint, "the oldest run is of %s", e.Oldest.Format(time.DateOnly))
	default:
		d.ok(areaEngine, "history", "about %d attempts since %s", e.Attempts, e.Oldest.Format(time.DateOnly))
	}
}

// file looks at an Engine DB that is one.
func (d *doctor) file(ctx context.Context, path string, size int64) {
	if disk, err := diskOf(path); err == nil && disk.network != "" {
		d.warn(areaEngine, "storage", "put it on a disk of this host", "%s is on the network (%s), where the locks of its users may not be seen", path, disk.network)
	}
	if size > cheapCheck {
		d.room(areaEngine, "storage", path, path)
		return
	}
	switch found, err := d.e.Store.QuickCheck(ctx); {
	case err != nil:
		d.failed(areaEngine, "storage", err)
	case found != "":
		d.add(DoctorFail, areaEngine, "storage", "bring back the last backup", "the file is damaged: %s", found)
	default:
		d.room(areaEngine, "storage", path, "the file is sound")
	}
}

func (d *doctor) pipelines(ctx context.Context) {
	graphs, err := d.e.Store.Graphs(ctx)
	if err != nil {
		d.failed(areaEngine, "pipelines", err)
		d.why = "the pipelines cannot be read"
		return
	}
	d.graphs, d.read = graphs, true
	tasks, failures := 0, 0
	for _, g := range graphs {
		tasks += len(g.Tasks)
	}
	for _, p := range d.e.problems(graphs, true) {
		if p.Level == fail {
			failures++
		}
	}
	if failures > 0 {
		d.add(DoctorFail, areaEngine, "pipelines", "etl-craft validate", "%d problem(s) keep pipelines from running", failures)
		return
	}
	d.ok(areaEngine, "pipelines", "%d with %d tasks", len(graphs), tasks)
}
