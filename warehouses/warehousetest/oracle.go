package warehousetest

import (
	"slices"
	"strconv"
	"strings"
)

// Column is a column of a SELECT or a table. Names are in lower case.
type Column struct {
	Name string
	Kind Kind
	Type string // as SQL spells it
}

// Row is a row as canonical text, nil for NULL, by the column's name in lower case.
type Row map[string]*string

// OrderTerm is a term of MERGE_DEDUPE_ORDER.
type OrderTerm struct {
	Column     string
	Descending bool
	NullsFirst bool
}

// Request is one attempt of a SQL task: what it asks for, what its SELECT returns and what it stamps.
type Request struct {
	Action                     string
	Keys, Compare              []string
	Order                      []OrderTerm
	SetupFor                   string
	Evolve, Preserve, Hard     bool
	Columns                    []Column
	Rows                       []Row
	PipelineID, RunID, TaskRun int64
	Instant, User              string // Instant in canonical form
}

// Counts are the six counts of a task run; nil is NULL.
type Counts struct{ Source, Target, Insert, Update, Delete, Written *int64 }

// Table is what the reference knows of one target.
type Table struct {
	Columns []Column // in their order, those of the engine included
	Rows    []Row    // without row_id
}

// Oracle says what each action leaves in one target, row by row and slowly. It shares nothing with the product.
type Oracle struct {
	Table   *Table // nil when there is none
	Hashed  bool   // hash version 2 is recorded
	Compare string // the recorded compare list
}

var identity = []Column{{"pipeline_id", "int", ""}, {"pipeline_run_id", "int", ""}, {"task_run_id", "int", ""}}

// audit columns by action, in the order of the reference.
var audit = map[string][]Column{
	"CREATE_TABLE":    {},
	"OVERWRITE_TABLE": {{"update_date", "timestamptz", ""}},
	"APPEND_TABLE":    {{"create_date", "timestamptz", ""}},
	"SCD1_MERGE": {{"hash_key", "text", ""}, {"create_date", "timestamptz", ""}, {"created_by", "text", ""}, {"update_date", "timestamptz", ""},
		{"updated_by", "text", ""}, {"delete_flag", "text", ""}},
	"SCD2_MERGE": {{"hash_key", "text", ""}, {"create_date", "timestamptz", ""}, {"created_by", "text", ""}, {"update_date", "timestamptz", ""},
		{"updated_by", "text", ""}, {"delete_flag", "text", ""}, {"active_flag", "text", ""}},
}

var engineNames = []string{"pipeline_id", "pipeline_run_id", "task_run_id", "hash_key", "create_date", "created_by", "update_date", "updated_by",
	"delete_flag", "active_flag", "row_id"}

// Apply does the request. A code other than "" is the failure that must be reported, and then nothing has changed.
func (o *Oracle) Apply(q Request) (Counts, string) {
	switch q.Action {
	case "CREATE_TABLE":
		return o.create(q)
	case "SETUP_TABLE":
		return o.setup(q)
	case "DROP_TABLE":
		o.forget()
		o.Table = nil
		return Counts{Written: number(0)}, ""
	}
	if o.Table == nil {
		return Counts{}, "TARGET_MISSING"
	}
	for _, name := range slices.Concat(q.Keys, q.Compare) {
		if find(q.Columns, name) == nil {
			return Counts{}, "COLUMN_MISSING"
		}
	}
	switch q.Action {
	case "OVERWRITE_TABLE":
		return o.overwrite(q)
	case "APPEND_TABLE":
		return o.appendRows(q)
	case "SCD1_MERGE", "SCD2_MERGE":
		return o.merge(q)
	case "DELETE_ROWS":
		return o.deleteRows(q)
	}
	panic("no action " + q.Action)
}

func (o *Oracle) forget() { o.Hashed, o.Compare = false, "" }

func newTable(q Request, action string) *Table {
	return &Table{Columns: slices.Concat(q.Columns, identity, audit[action], []Column{{"row_id", "int", ""}})}
}

func (o *Oracle) create(q Request) (Counts, string) {
	o.Table = newTable(q, "CREATE_TABLE")
	o.forget()
	for _, r := range o.stored(q) {
		o.Table.Rows = append(o.Table.Rows, o.fresh(q, r, nil))
	}
	return o.counts(q, len(q.Rows), 0, 0), ""
}

func (o *Oracle) setup(q Request) (Counts, string) {
	if o.Table == nil {
		o.Table = newTable(q, q.SetupFor)
		o.forget()
		if len(q.Compare) > 0 {
			o.Hashed, o.Compare = true, strings.Join(q.Compare, "|")
		}
	}
	return Counts{Target: number(len(o.Table.Rows)), Written: number(0)}, ""
}

func (o *Oracle) overwrite(q Request) (Counts, string) {
	added, code := o.checkShape(q)
	if code != "" {
		return Counts{}, code
	}
	o.evolve(added)
	o.Table.Rows = nil
	for _, r := range o.stored(q) {
		o.Table.Rows = append(o.Table.Rows, o.fresh(q, r, nil))
	}
	return o.counts(q, len(q.Rows), 0, 0), ""
}

func (o *Oracle) appendRows(q Request) (Counts, string) {
	for _, c := range identity {
		if !o.has(c.Name) {
			return Counts{}, "TARGET_SHAPE"
		}
	}
	for _, c := range q.Columns {
		if !o.has(c.Name) {
			return Counts{}, "NEW_COLUMNS"
		}
	}
	o.Table.Rows = slices.DeleteFunc(o.Table.Rows, func(r Row) bool { return is(r["task_run_id"], strconv.FormatInt(q.TaskRun, 10)) })
	for _, r := range o.stored(q) {
		o.Table.Rows = append(o.Table.Rows, o.fresh(q, r, nil))
	}
	return o.counts(q, len(q.Rows), 0, 0), ""
}

func (o *Oracle) merge(q Request) (Counts, string) {
	added, code := o.checkShape(q)
	if code != "" {
		return Counts{}, code
	}
	list := strings.Join(q.Compare, "|")
	if len(o.Table.Rows) > 0 {
		if !o.Hashed {
			return Counts{}, "HASH_VERSION"
		}
		if o.Compare != list {
			return Counts{}, "HASH_COLUMNS"
		}
	}
	rows := o.stored(q)
	if hasNull(rows, q.Keys) {
		return Counts{}, "NULL_MERGE_KEYS"
	}
	rows, code = o.dedupe(q, rows)
	if code != "" {
		return Counts{}, code
	}
	o.evolve(added)
	o.Hashed, o.Compare = true, list
	inserted, updated := 0, 0
	for _, r := range rows {
		one := o.scd1
		if q.Action == "SCD2_MERGE" {
			one = o.scd2
		}
		i, u := one(q, r)
		inserted, updated = inserted+i, updated+u
	}
	return o.counts(q, inserted, updated, 0), ""
}

// scd1 merges one row: every row of a changed key takes all its values.
func (o *Oracle) scd1(q Request, r Row) (inserted, updated int) {
	var matches []Row
	changed := false
	for _, t := range o.Table.Rows {
		if !sameKey(t, r, q.Keys) {
			continue
		}
		matches = append(matches, t)
		next := hashOf(q, preserve(q, t, r))
		changed = changed || !is(t["hash_key"], next) || is(t["delete_flag"], "Y")
	}
	if len(matches) == 0 {
		hash := hashOf(q, r)
		o.Table.Rows = append(o.Table.Rows, o.fresh(q, r, &hash))
		return 1, 0
	}
	if !changed {
		return 0, 0
	}
	for _, t := range matches {
		next := preserve(q, t, r)
		for _, c := range q.Columns {
			t[c.Name] = next[c.Name]
		}
		hash := hashOf(q, next)
		t["hash_key"], t["delete_flag"] = &hash, text("N")
		touch(q, t)
	}
	return 0, len(matches)
}

// scd2 merges one row: active versions that differ are closed, and one is opened unless an equal one stays.
func (o *Oracle) scd2(q Request, r Row) (inserted, updated int) {
	hash := hashOf(q, r)
	equal := false
	for _, t := range o.Table.Rows {
		if !sameKey(t, r, q.Keys) || !is(t["active_flag"], "Y") {
			continue
		}
		if is(t["hash_key"], hash) && !is(t["delete_flag"], "Y") {
			equal = true
			continue
		}
		t["active_flag"] = text("N")
		touch(q, t)
		updated++
	}
	if equal {
		return 0, updated
	}
	o.Table.Rows = append(o.Table.Rows, o.fresh(q, r, &hash))
	return 1, updated
}

func (o *Oracle) deleteRows(q Request) (Counts, string) {
	if !q.Hard {
		for _, c := range []string{"pipeline_id", "pipeline_run_id", "task_run_id", "update_date", "updated_by", "delete_flag"} {
			if !o.has(c) {
				return Counts{}, "TARGET_SHAPE"
			}
		}
	}
	rows := o.stored(q)
	if hasNull(rows, q.Keys) {
		return Counts{}, "NULL_MERGE_KEYS"
	}
	wanted := func(t Row) bool {
		return slices.ContainsFunc(rows, func(r Row) bool { return sameKey(t, r, q.Keys) })
	}
	before := len(o.Table.Rows)
	if q.Hard {
		o.Table.Rows = slices.DeleteFunc(o.Table.Rows, wanted)
		return o.counts(q, 0, 0, before-len(o.Table.Rows)), ""
	}
	flagged := 0
	for _, t := range o.Table.Rows {
		if is(t["delete_flag"], "Y") || o.has("active_flag") && !is(t["active_flag"], "Y") || !wanted(t) {
			continue
		}
		t["delete_flag"] = text("Y")
		touch(q, t)
		flagged++
	}
	return o.counts(q, 0, flagged, 0), ""
}

// checkShape tells the columns to add, or why SELECT and target do not fit.
func (o *Oracle) checkShape(q Request) ([]Column, string) {
	for _, c := range slices.Concat(identity, audit[q.Action]) {
		if !o.has(c.Name) {
			return nil, "TARGET_SHAPE"
		}
	}
	for _, c := range o.Table.Columns {
		if !slices.Contains(engineNames, c.Name) && find(q.Columns, c.Name) == nil {
			return nil, "TARGET_SHAPE"
		}
	}
	var added []Column
	for _, c := range q.Columns {
		stored := find(o.Table.Columns, c.Name)
		switch {
		case stored == nil && !q.Evolve:
			return nil, "NEW_COLUMNS"
		case stored == nil:
			added = append(added, c)
		case q.Evolve && stored.Type != c.Type:
			return nil, "TYPE_CHANGED"
		}
	}
	return added, ""
}

func (o *Oracle) evolve(added []Column) { o.Table.Columns = append(o.Table.Columns, added...) }

// stored are the SELECT's rows with the values that the target's types make of them.
func (o *Oracle) stored(q Request) []Row {
	var rows []Row
	for _, r := range q.Rows {
		s := Row{}
		for _, c := range q.Columns {
			kind := c.Kind
			if t := find(o.Table.Columns, c.Name); t != nil {
				kind = t.Kind
			}
			if v := r[c.Name]; v != nil {
				converted, err := canonical(kind, *v)
				if err != nil {
					panic(err)
				}
				s[c.Name] = &converted
			}
		}
		rows = append(rows, s)
	}
	return rows
}

// dedupe keeps the first row of each key.
func (o *Oracle) dedupe(q Request, rows []Row) ([]Row, string) {
	var kept []Row
	for i, r := range rows {
		if slices.ContainsFunc(rows[:i], func(earlier Row) bool { return sameKey(earlier, r, q.Keys) }) {
			continue
		}
		var group []Row
		for _, other := range rows {
			if sameKey(other, r, q.Keys) {
				group = append(group, other)
			}
		}
		if len(group) > 1 && len(q.Order) == 0 {
			return nil, "DUPLICATE_MERGE_KEYS"
		}
		first := group[0]
		for _, g := range group {
			if o.rank(q, g, first) < 0 {
				first = g
			}
		}
		for _, g := range group {
			if o.rank(q, g, first) == 0 && !sameValues(q, g, first) {
				return nil, "DEDUPE_TIE"
			}
		}
		kept = append(kept, first)
	}
	return kept, ""
}

// rank is negative when a comes before b in MERGE_DEDUPE_ORDER.
func (o *Oracle) rank(q Request, a, b Row) int {
	for _, term := range q.Order {
		x, y := a[term.Column], b[term.Column]
		if x == nil && y == nil {
			continue
		}
		if x == nil || y == nil {
			if (x == nil) == term.NullsFirst {
				return -1
			}
			return 1
		}
		c := find(o.Table.Columns, term.Column)
		if c == nil {
			c = find(q.Columns, term.Column)
		}
		if d := compareValues(c.Kind, *x, *y); d != 0 {
			if term.Descending {
				return -d
			}
			return d
		}
	}
	return 0
}

// fresh is a new row of the target.
func (o *Oracle) fresh(q Request, r Row, hash *string) Row {
	all := Row{
		"pipeline_id": id(q.PipelineID), "pipeline_run_id": id(q.RunID), "task_run_id": id(q.TaskRun), "hash_key": hash,
		"create_date": &q.Instant, "update_date": &q.Instant, "created_by": &q.User, "updated_by": &q.User,
		"delete_flag": text("N"), "active_flag": text("Y"),
	}
	row := Row{}
	for _, c := range o.Table.Columns {
		switch {
		case c.Name == "row_id":
		case slices.Contains(engineNames, c.Name):
			row[c.Name] = all[c.Name]
		default:
			row[c.Name] = r[c.Name]
		}
	}
	return row
}

func touch(q Request, t Row) {
	t["pipeline_id"], t["pipeline_run_id"], t["task_run_id"] = id(q.PipelineID), id(q.RunID), id(q.TaskRun)
	t["update_date"], t["updated_by"] = &q.Instant, &q.User
}

func (o *Oracle) counts(q Request, inserted, updated, deleted int) Counts {
	return Counts{number(len(q.Rows)), number(len(o.Table.Rows)), number(inserted), number(updated), number(deleted), number(inserted + updated + deleted)}
}

func (o *Oracle) has(column string) bool { return find(o.Table.Columns, column) != nil }

// preserve is the row with the target's values where PRESERVE_TARGET keeps them.
func preserve(q Request, target, r Row) Row {
	next := Row{}
	for _, c := range q.Columns {
		next[c.Name] = r[c.Name]
		if q.Preserve && r[c.Name] == nil {
			next[c.Name] = target[c.Name]
		}
	}
	return next
}

func hashOf(q Request, r Row) string {
	var values []*string
	for _, c := range q.Compare {
		values = append(values, r[c])
	}
	return digest(values)
}

func hasNull(rows []Row, keys []string) bool {
	for _, r := range rows {
		for _, k := range keys {
			if r[k] == nil {
				return true
			}
		}
	}
	return false
}

func sameKey(a, b Row, keys []string) bool {
	for _, k := range keys {
		if a[k] == nil || b[k] == nil || *a[k] != *b[k] {
			return false
		}
	}
	return true
}

func sameValues(q Request, a, b Row) bool {
	for _, c := range q.Columns {
		x, y := a[c.Name], b[c.Name]
		if (x == nil) != (y == nil) || x != nil && *x != *y {
			return false
		}
	}
	return true
}

func find(columns []Column, name string) *Column {
	for i := range columns {
		if columns[i].Name == name {
			return &columns[i]
		}
	}
	return nil
}

func is(v *string, want string) bool { return v != nil && *v == want }

func text(s string) *string { return &s }

func id(n int64) *string { return text(strconv.FormatInt(n, 10)) }

func number(n int) *int64 {
	v := int64(n)
	return &v
}
