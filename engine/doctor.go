package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// DoctorRequest says what to look at, and with which errors the parts of the project were opened that are missing in Deps.
type DoctorRequest struct {
	Fix    bool   // remove what is provably abandoned
	Target string // count the keys that stand more than once in this table; "" is none

	StoreError, LockerError, WarehouseError error
	// Pending reads the names of the migrations that are not applied yet, the engine's and the project's.
	Pending func(context.Context) (engine, project []string, err error)
}

// DoctorDocument is etl-craft/doctor/1.
type DoctorDocument struct {
	Schema   string        `json:"schema"`
	Fix      bool          `json:"fix"`
	Checks   []DoctorCheck `json:"checks"`
	Fixed    []string      `json:"fixed"` // what was removed or ended, with Fix
	OK       int           `json:"ok"`
	Warnings int           `json:"warnings"`
	Failures int           `json:"failures"`
	Skipped  int           `json:"skipped"`
}

// DoctorCheck is one thing that was looked at.
type DoctorCheck struct {
	Area    string  `json:"area"`
	Check   string  `json:"check"`
	Status  string  `json:"status"` // OK, WARN, FAIL or SKIPPED
	Message string  `json:"message"`
	Hint    *string `json:"hint"`
}

// Statuses of a DoctorCheck. SKIPPED could not be looked at, because something before it failed.
const (
	DoctorOK      = "OK"
	DoctorWarn    = "WARN"
	DoctorFail    = "FAIL"
	DoctorSkipped = "SKIPPED"
)

// Areas of a DoctorCheck.
const (
	areaConfiguration = "configuration"
	areaEngine        = "engine"
	areaWarehouse     = "warehouse"
	areaFolders       = "folders"
	areaAbandoned     = "abandoned"
)

// Names of checks that are skipped together.
var (
	engineChecks    = []string{"privileges", "clock", "locks", "storage", "history", "pipelines"}
	warehouseChecks = []string{"version", "time zone", "clock", "schemas", "targets"}
	folderChecks    = []string{"pipelines", "sql_files", "logs"}
	abandonedChecks = []string{"attempts", "runs", "scratch tables", "kept tables", "waits", "notifications", "unfinished runs"}
)

// Doctor looks at everything that a project needs, and with Fix removes what is provably abandoned. One check that fails
// does not hide the others. A FAIL comes with an error of code CHECK_FAILED beside the document.
func (e *Engine) Doctor(ctx context.Context, req DoctorRequest) (*DoctorDocument, error) {
	d := &doctor{e: e, req: req, doc: newDoctorDocument(req.Fix)}
	if e.Store == nil || e.Locker == nil {
		if d.req.Fix, d.doc.Fix = false, false; req.Fix { // what is abandoned cannot be known
			d.skip(areaAbandoned, "the Engine DB or its locks cannot be used, so nothing was removed", "fix")
		}
	}
	if !d.req.Fix {
		err := d.all(ctx)
		return d.doc, err
	}
	arguments, err := json.Marshal(map[string]any{"fix": true})
	if err != nil {
		return nil, err
	}
	ctx = findingRun(ctx)
	err = e.audited(ctx, store.ActionRecord{Command: "doctor", Arguments: string(arguments)}, func() error {
		err := d.all(ctx)
		return errors.Join(err, e.noteResult(ctx, map[string]any{"fixed": d.doc.Fixed}))
	})
	return d.doc, err
}

// DoctorWithoutConfig is the document when the configuration cannot be read, which everything else needs.
func DoctorWithoutConfig(err error) (*DoctorDocument, error) {
	d := &doctor{doc: newDoctorDocument(false)}
	problems := fault.As(err).Problems
	if len(problems) == 0 {
		d.failed(areaConfiguration, "file", err)
	}
	for _, p := range problems {
		d.add(DoctorFail, areaConfiguration, "file", p.Hint, "%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	}
	const why = "the configuration cannot be used"
	d.skip(areaEngine, why, append([]string{"connection", "migrations"}, engineChecks...)...)
	d.skip(areaWarehouse, why, append([]string{"connection"}, warehouseChecks...)...)
	d.skip(areaFolders, why, folderChecks...)
	d.skip(areaAbandoned, why, abandonedChecks...)
	return d.doc, d.verdict()
}

func newDoctorDocument(fix bool) *DoctorDocument {
	return &DoctorDocument{Schema: "etl-craft/doctor/1", Fix: fix, Checks: []DoctorCheck{}, Fixed: []string{}}
}

// doctor is one under way.
type doctor struct {
	e      *Engine
	req    DoctorRequest
	doc    *DoctorDocument
	graphs []*store.Graph
	read   bool   // graphs are what the Engine DB has
	why    string // why not
}

func (d *doctor) all(ctx context.Context) error {
	d.configuration()
	d.engineDB(ctx)
	d.folders(ctx)
	d.abandonedRuns(ctx)
	d.warehouse(ctx)
	if ctx.Err() != nil {
		return fault.New(fault.Interrupted, "interrupted")
	}
	return d.verdict()
}

// verdict sorts and counts.
func (d *doctor) verdict() error {
	areas := []string{areaConfiguration, areaEngine, areaWarehouse, areaFolders, areaAbandoned}
	slices.SortStableFunc(d.doc.Checks, func(a, b DoctorCheck) int { return slices.Index(areas, a.Area) - slices.Index(areas, b.Area) })
	for _, c := range d.doc.Checks {
		switch c.Status {
		case DoctorOK:
			d.doc.OK++
		case DoctorWarn:
			d.doc.Warnings++
		case DoctorFail:
			d.doc.Failures++
		case DoctorSkipped:
			d.doc.Skipped++
		}
	}
	if d.doc.Failures > 0 {
		return fault.New(fault.CheckFailed, "%d check(s) failed", d.doc.Failures)
	}
	return nil
}

func (d *doctor) add(status, area, check, hint, format string, args ...any) {
	d.doc.Checks = append(d.doc.Checks, DoctorCheck{Area: area, Check: check, Status: status, Message: oneLine(fmt.Sprintf(format, args...)), Hint: orNil(hint)})
}

func (d *doctor) ok(area, check, format string, args ...any) {
	d.add(DoctorOK, area, check, "", format, args...)
}

func (d *doctor) warn(area, check, hint, format string, args ...any) {
	d.add(DoctorWarn, area, check, hint, format, args...)
}

func (d *doctor) failed(area, check string, err error) {
	f := fault.As(err)
	d.add(DoctorFail, area, check, f.Hint, "%s", f.Error())
}

func (d *doctor) skip(area, why string, checks ...string) {
	for _, c := range checks {
		d.add(DoctorSkipped, area, c, "", "%s", why)
	}
}

// fixed notes what was done about something.
func (d *doctor) fixed(format string, args ...any) {
	d.doc.Fixed = append(d.doc.Fixed, fmt.Sprintf(format, args...))
}

func (d *doctor) configuration() {
	c := d.e.Config
	d.ok(areaConfiguration, "file", "%s, profile %s", c.File, c.Profile)
	good := true
	for _, f := range []struct {
		path    string
		secrets bool
	}{{c.File, c.PlainSecrets}, {c.EnvFile, c.EnvFile != ""}} {
		if f.secrets {
			good = d.private(areaConfiguration, "secrets", f.path, "holds secrets and can be read by others") && good
		}
	}
	if good {
		d.ok(areaConfiguration, "secrets", "no file with secrets can be read by others")
	}
}

// private reports whether only its owner can read a file, and warns when not. A file that is not there is private.
func (d *doctor) private(area, check, path, what string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return true
	}
	d.warn(area, check, "chmod 600 "+path, "%s %s (mode %o)", path, what, info.Mode().Perm())
	return false
}

// folders looks at the folders of the project: whether those that are read can be read, and logs be written.
func (d *doctor) folders(ctx context.Context) {
	dir := d.e.Config.Dir
	named, known := d.namedFiles()
	for _, folder := range []string{"pipelines", "sql_files"} {
		switch _, err := os.ReadDir(filepath.Join(dir, folder)); {
		case err == nil:
			d.ok(areaFolders, folder, "%s can be read", filepath.Join(dir, folder))
		case !errors.Is(err, os.ErrNotExist):
			d.add(DoctorFail, areaFolders, folder, "check its permissions", "%v", err)
		case folder == "sql_files" && len(named) > 0:
			d.add(DoctorFail, areaFolders, folder, "create it beside etl-craft.yml", "%s does not exist, but %d task(s) name files in it", filepath.Join(dir, folder), len(named))
		default:
			d.ok(areaFolders, folder, "there is none, and none is needed")
		}
	}
	d.logs()
	if !known {
		d.skip(areaFolders, d.why, "pipeline files", "SQL files")
		return
	}
	d.differences(ctx)
	d.unusedFiles(named)
}

// logs writes a file where logs will be, and removes it.
func (d *doctor) logs() {
	dir := d.e.Config.Orchestration.LogDir
	at := existing(dir)
	f, err := os.CreateTemp(at, ".etl-craft-doctor-")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		d.add(DoctorFail, areaFolders, "logs", "see orchestration.log_dir", "no logs can be written to %s: %v", dir, cause(err))
		return
	}
	for _, g := range d.graphs { // runs make a folder for each pipeline
		own := filepath.Join(dir, g.Pipeline.Code)
		if d.e.Config.Profiles > 1 {
			own = filepath.Join(dir, d.e.Config.Profile, g.Pipeline.Code)
		}
		if _, err := os.Stat(own); err != nil {
			continue
		}
		if err := writable(own); err != nil {
			d.add(DoctorFail, areaFolders, "logs", "check its owner", "%v", err)
			return
		}
	}
	d.room(areaFolders, "logs", at, dir+" can be written")
}

// cause is an error of the operating system without the path.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// existing is the nearest folder that exists: the path itself, or one above it.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// little is how much free space is too little.
var little int64 = 1_000_000_000

// room says ok, or warns when the disk of a path is nearly full.
func (d *doctor) room(area, check, path, ok string) {
	switch disk, err := diskOf(path); {
	case err != nil:
		d.warn(area, check, "", "the free space of %s is not known: %v", path, err)
	case disk.free < little:
		d.warn(area, check, "make room: df "+filepath.Dir(path), "%s: only %d MB are free on its disk", path, disk.free/1_000_000)
	default:
		d.ok(area, check, "%s, %d GB free", ok, disk.free/1_000_000_000)
	}
}

// writable asks whether this process may write to a path.
func writable(path string) error {
	const mayWrite = 2 // W_OK of access(2)
	if err := syscall.Access(path, mayWrite); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return nil
}

// namedFiles are the SQL files that tasks name, by their paths below sql_files; false when the tasks are not known.
func (d *doctor) namedFiles() (map[string]bool, bool) {
	named := map[string]bool{}
	for _, g := range d.graphs {
		for i := range g.Tasks {
			if file := g.Tasks[i].Params["SOURCE_SQL_FILE"]; file != "" {
				named[filepath.Clean(file)] = true
			}
		}
	}
	return named, d.read
}

func (d *doctor) differences(ctx context.Context) {
	problems, err := d.e.fileDifferences(ctx)
	switch {
	case err != nil:
		d.failed(areaFolders, "pipeline files", err)
	case len(problems) == 0:
		d.ok(areaFolders, "pipeline files", "the Engine DB has what they say")
	}
	for _, p := range problems {
		where := p.Pipeline
		if p.File != "" {
			where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		d.warn(areaFolders, "pipeline files", p.Hint, "%s", strings.TrimPrefix(where+": "+p.Message, ": "))
	}
}

func (d *doctor) unusedFiles(named map[string]bool) {
	root := filepath.Join(d.e.Config.Dir, "sql_files")
	var unused []string
	_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".sql" {
			return nil // a folder that cannot be read has been told of, or holds nothing that is used
		}
		if name, err := filepath.Rel(root, path); err == nil && !named[name] {
			unused = append(unused, name)
		}
		return nil
	})
	if len(unused) == 0 {
		d.ok(areaFolders, "SQL files", "each is named by a task")
		return
	}
	d.warn(areaFolders, "SQL files", "remove them, or name them with SOURCE_SQL_FILE", "no active task names %s", some(unused))
}

// some lists a few of many names.
func some(names []string) string {
	const most = 5
	names = slices.Clone(names)
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}
