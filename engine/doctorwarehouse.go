package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// doctorPatience is how long doctor waits for a warehouse that another process has to itself.
var doctorPatience = 10 * time.Second

// warehouse connects to the warehouse and looks at it, at the targets, and at what was left beside them.
func (d *doctor) warehouse(ctx context.Context) {
	s, why := d.connect(ctx)
	if s == nil {
		d.skip(areaWarehouse, why, warehouseChecks...)
		d.skip(areaAbandoned, why, "scratch tables", "kept tables")
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			d.failed(areaWarehouse, "connection", err)
		}
	}()
	d.spilled()
	facts := s.Facts()
	d.version(facts.Version)
	d.zone(ctx, s)
	d.clock(areaWarehouse, "the warehouse", func() (time.Time, error) {
		ms, err := s.Int(ctx, d.e.Dialect.Render("clock", nil))
		return time.UnixMilli(ms), err
	})
	if !d.read {
		d.skip(areaWarehouse, d.why, "schemas", "targets")
		d.skip(areaAbandoned, d.why, "scratch tables", "kept tables")
		return
	}
	targets, err := d.targets(facts.Database)
	if err != nil {
		d.failed(areaWarehouse, "targets", err)
		return
	}
	schemas := d.schemas(ctx, s, targets)
	d.tables(ctx, s, targets)
	d.repeated(ctx, s, targets)
	d.left(ctx, s, schemas)
}

// connect opens a session; nil with the reason when there is none.
func (d *doctor) connect(ctx context.Context) (warehouses.Session, string) {
	if d.req.WarehouseError != nil {
		d.failed(areaWarehouse, "connection", d.req.WarehouseError)
		return nil, "the warehouse cannot be used"
	}
	if path := d.e.Config.Warehouse.Path; path != "" && !d.warehouseFile(path) {
		return nil, "there is no warehouse to ask"
	}
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	if err := d.e.connect(ctx); err != nil {
		return nil, d.unconnected(err)
	}
	s, err := d.e.env().Warehouse.Session(ctx)
	if err != nil {
		return nil, d.unconnected(err)
	}
	f := s.Facts()
	d.ok(areaWarehouse, "connection", "%s %s, database %s, user %s (%s)", d.e.Dialect.Product, f.Version, f.Database, f.User, f.Identity)
	return s, ""
}

// unconnected tells why there is no connection. That another process works there is no fault.
func (d *doctor) unconnected(err error) string {
	if !fault.Has(err, fault.LockTimeout) {
		d.failed(areaWarehouse, "connection", err)
		return "the warehouse cannot be reached"
	}
	f := fault.As(err)
	d.warn(areaWarehouse, "connection", "run doctor again when that is done", "%s", f.Error())
	return "another process has the warehouse to itself"
}

// warehouseFile looks at a warehouse that is a file, and reports whether it can be connected to. One that does not exist is
// made by the first run, not by doctor.
func (d *doctor) warehouseFile(path string) bool {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := writable(filepath.Dir(path)); err != nil {
			d.add(DoctorFail, areaWarehouse, "file", "create the folder, or see warehouse.path", "%v", err)
		} else {
			d.ok(areaWarehouse, "file", "%s does not exist yet; the first run makes it", path)
		}
		d.skip(areaWarehouse, "there is no warehouse to ask", "connection")
		return false
	}
	if err == nil {
		err = errors.Join(writable(path), writable(filepath.Dir(path)))
	}
	if err != nil {
		d.add(DoctorFail, areaWarehouse, "file", "check owner and permissions", "%v", err)
		d.skip(areaWarehouse, "the file cannot be used", "connection")
		return false
	}
	d.private(areaWarehouse, "file", path, "can be read by others")
	if disk, err := diskOf(path); err == nil && disk.network != "" {
		d.warn(areaWarehouse, "file", "put it on a disk of this host", "%s is on the network (%s), where the locks of its users may not be seen", path, disk.network)
	}
	what := fmt.Sprintf("%s, %d MB", path, info.Size()/1_000_000)
	if wal, err := os.Stat(path + ".wal"); err == nil {
		what += fmt.Sprintf(", %d kB of log beside it", wal.Size()/1000)
	}
	d.room(areaWarehouse, "file", path, what)
	return true
}

// spilled looks for what a process that died had put beside the warehouse because it did not fit into memory. The session
// is this process's only one and has put nothing there.
func (d *doctor) spilled() {
	spiller, ok := d.e.env().Warehouse.(warehouses.Spiller)
	if !ok {
		return
	}
	folder, files, err := spiller.Spilled()
	switch {
	case err != nil:
		d.failed(areaAbandoned, "spilled files", err)
		return
	case len(files) == 0:
		d.ok(areaAbandoned, "spilled files", "none")
		return
	case !d.req.Fix:
		d.warn(areaAbandoned, "spilled files", commandToMend, "%s holds %d file(s) of a process that died", folder, len(files))
		return
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			d.failed(areaAbandoned, "spilled files", err)
			return
		}
		d.fixed("removed: %s", f)
	}
	_ = os.Remove(folder) // unless there is something else in it
	d.ok(areaAbandoned, "spilled files", "%d of them in %s were removed", len(files), folder)
}

func (d *doctor) version(version string) {
	known := d.e.Dialect.KnownDefects(version, hostClock())
	for _, defect := range known {
		d.warn(areaWarehouse, "version", defect.Hint, "%s %s: %s", d.e.Dialect.Product, version, defect.What)
	}
	if len(known) == 0 {
		d.ok(areaWarehouse, "version", "%s %s has no defects that are known here", d.e.Dialect.Product, version)
	}
}

func (d *doctor) zone(ctx context.Context, s warehouses.Session) {
	rows, err := s.Rows(ctx, d.e.Dialect.Render("time_zone", nil), 1)
	switch {
	case err != nil:
		d.failed(areaWarehouse, "time zone", err)
	case len(rows) != 1 || rows[0][0] != "UTC":
		d.add(DoctorFail, areaWarehouse, "time zone", "look for what sets it for the role or the database", "the session has %v instead of UTC", rows)
	default:
		d.ok(areaWarehouse, "time zone", "UTC")
	}
}

// target is a table that tasks write.
type target struct {
	name  warehouses.QualifiedName
	tasks []*handlers.Task
}

// rightsOf are what the actions need on a table that is there. Those that replace it need to own it instead.
var rightsOf = map[string][]string{
	"APPEND_TABLE": {"SELECT", "INSERT", "DELETE"}, "OVERWRITE_TABLE": {"SELECT", "INSERT", "DELETE"},
	"SCD1_MERGE": {"SELECT", "INSERT", "UPDATE"}, "SCD2_MERGE": {"SELECT", "INSERT", "UPDATE"}, "DELETE_ROWS": {"SELECT", "UPDATE"},
}

func (t *target) rights() []string {
	var all []string
	for _, task := range t.tasks {
		for _, r := range rightsOf[task.Params["SQL_ACTION"]] {
			if r == "UPDATE" && task.Params["HARD_DELETE"] == "true" {
				r = "DELETE"
			}
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// replaced reports whether a task makes the table anew or drops it, for which it has to be the user's own.
func (t *target) replaced() bool {
	return slices.ContainsFunc(t.tasks, func(task *handlers.Task) bool {
		return slices.Contains([]string{"CREATE_TABLE", "DROP_TABLE"}, task.Params["SQL_ACTION"])
	})
}

// targets are those of the connection's database, by name.
func (d *doctor) targets(database string) ([]target, error) {
	all, err := d.e.targets(d.graphs, MaintenanceRequest{})
	if err != nil {
		return nil, err
	}
	var targets []target
	for _, t := range all {
		name := t.Name
		if name.Database == "" {
			name.Database = database
		}
		targets = append(targets, target{name, t.Tasks})
	}
	return targets, nil
}

// schemas looks at the schemas that targets are in, and returns those that exist.
func (d *doctor) schemas(ctx context.Context, s warehouses.Session, targets []target) []warehouses.QualifiedName {
	of, creates := map[string]warehouses.QualifiedName{}, map[string]bool{}
	for _, t := range targets {
		if table, err := s.Table(ctx, t.name); t.replaced() || err == nil && table == nil {
			creates[dotted(t.name.Database, t.name.Schema)] = true
		}
		of[dotted(t.name.Database, t.name.Schema)] = warehouses.QualifiedName{Database: t.name.Database, Schema: t.name.Schema}
	}
	var exist []warehouses.QualifiedName
	good := 0
	for _, name := range slices.Sorted(maps.Keys(of)) {
		schema := of[name]
		there, err := s.SchemaExists(ctx, schema)
		switch {
		case err != nil:
			d.failed(areaWarehouse, "schemas", err)
			continue
		case !there && d.e.Config.Warehouse.CreateSchemas:
			good++
			continue
		case !there:
			d.add(DoctorFail, areaWarehouse, "schemas", "CREATE SCHEMA "+string(d.e.Dialect.Ident(schema.Schema)), "%s does not exist, and create_schemas is not set", name)
			continue
		}
		exist = append(exist, schema)
		wanted := []string{"USAGE"}
		if creates[name] {
			wanted = append(wanted, "CREATE")
		}
		missing, err := d.missing(ctx, s, "schema_rights", schema.Schema, wanted)
		switch {
		case err != nil:
			d.failed(areaWarehouse, "schemas", err)
		case len(missing) > 0:
			d.add(DoctorFail, areaWarehouse, "schemas", "etl-craft doctor --grants prints what is needed", "%s: the user %s lacks %s", name, s.Facts().User, strings.Join(missing, ", "))
		default:
			good++
		}
	}
	if good > 0 || len(of) == 0 {
		d.ok(areaWarehouse, "schemas", "%d of %d can be used", good, len(of))
	}
	return exist
}

// missing asks which privileges the user lacks on something; none where the warehouse has no privileges.
func (d *doctor) missing(ctx context.Context, s warehouses.Session, statement, on string, wanted []string) ([]string, error) {
	if !d.e.Dialect.Privileges || len(wanted) == 0 {
		return nil, nil
	}
	rights := warehouses.Rights{On: d.e.Dialect.Text(on)}
	for _, w := range wanted {
		rights.Wanted = append(rights.Wanted, d.e.Dialect.Text(w))
	}
	rows, err := s.Rows(ctx, d.e.Dialect.Render(statement, rights), math.MaxInt)
	var missing []string
	for _, r := range rows {
		missing = append(missing, r[0])
	}
	return missing, err
}

// tables looks at the targets: whether what is there can be written, and made anew where tasks do that.
func (d *doctor) tables(ctx context.Context, s warehouses.Session, targets []target) {
	good, absent := 0, 0
	for _, t := range targets {
		table, err := s.Table(ctx, t.name)
		switch {
		case err != nil:
			d.failed(areaWarehouse, "targets", err)
			continue
		case table == nil:
			absent++
			continue
		case table.Kind != "table":
			d.add(DoctorFail, areaWarehouse, "targets", "choose another TARGET_OBJECT", "%s is a %s", t.name, table.Kind)
			continue
		}
		missing, err := d.missing(ctx, s, "table_rights", string(d.e.Dialect.Table(t.name)), t.rights())
		if err == nil && t.replaced() {
			var r *warehouses.Replacement
			if r, err = s.Replacement(ctx, table); err == nil && r.NotOwned {
				missing = append(missing, "ownership, which "+r.Owner+" has")
			}
		}
		switch {
		case err != nil:
			f := fault.As(err)
			d.add(DoctorFail, areaWarehouse, "targets", f.Hint, "%s: %s", t.name, f.Error())
		case len(missing) > 0:
			d.add(DoctorFail, areaWarehouse, "targets", "etl-craft doctor --grants prints what is needed", "%s: the user %s lacks %s", t.name, s.Facts().User, strings.Join(missing, ", "))
		default:
			good++
		}
	}
	if good+absent == len(targets) {
		d.ok(areaWarehouse, "targets", "%d can be written, not there yet: %d", good, absent)
	}
}

// repeated looks into the rows of the target that was asked for.
func (d *doctor) repeated(ctx context.Context, s warehouses.Session, targets []target) {
	if d.req.Target == "" {
		return
	}
	const check = "merge keys"
	env := d.e.env()
	wanted := strings.ToLower(qualified(env, d.req.Target))
	i := slices.IndexFunc(targets, func(t target) bool { return t.name.Key() == wanted })
	if i < 0 {
		d.failed(areaWarehouse, check, fault.New(fault.TargetUnknown, "no active task writes %s", d.req.Target).WithHint("etl-craft list, etl-craft graph --pipeline P"))
		return
	}
	problems := map[string]fault.Problem{} // tasks that merge by the same key find the same
	for _, task := range targets[i].tasks {
		checker, ok := d.e.handlers[task.Handler].(handlers.TargetChecker)
		if !ok {
			continue
		}
		found, err := checker.CheckTarget(ctx, env, task, s)
		if err != nil {
			d.failed(areaWarehouse, check, err)
			return
		}
		for _, p := range found {
			problems[p.Message] = p
		}
	}
	for _, message := range slices.Sorted(maps.Keys(problems)) {
		p := problems[message]
		d.add(p.Level, areaWarehouse, check, p.Hint, "%s", message)
	}
	if len(problems) == 0 {
		d.ok(areaWarehouse, check, "%s: each stands once", targets[i].name)
	}
}
