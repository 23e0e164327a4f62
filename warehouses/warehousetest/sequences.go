package warehousetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
)

// sample is a type with values that are easily got wrong.
type sample struct {
	kind   Kind
	typ    string
	values []string
	wider  *sample // another type whose values the target's type takes, some of them rounded
}

var (
	textSample = sample{kind: "text", typ: "VARCHAR", values: []string{"", " ", "a", "a ", "A", "N", "V1:N", "V0:N", "NULL", "é", "e\u0301", "😀", "日本語", "it's",
		`back\slash`, `\n`, "line\nbreak", "tab\t", "-- no comment", "/* ; */", "$$run_date", "$tag$", "? %s {0}", "z", "ß"}}
	intSample    = sample{kind: "int", typ: "INTEGER", values: []string{"0", "1", "-1", "7", "10", "2147483647", "-2147483648"}}
	bigintSample = sample{kind: "int", typ: "BIGINT", values: []string{"0", "1", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808", "10", "9"}, wider: &intSample}
	samples      = []sample{
		textSample, textSample, intSample, bigintSample,
		{kind: "decimal(12,2)", typ: "DECIMAL(12,2)", values: []string{"0.00", "0.10", "-0.10", "1.00", "12.30", "9999999999.99", "-9999999999.99"},
			wider: &sample{kind: "decimal(14,4)", typ: "DECIMAL(14,4)", values: []string{"0.0049", "0.0050", "-0.0050", "12.2951", "12.3049", "1.0000", "-0.1000"}}},
		{kind: "decimal(4,4)", typ: "DECIMAL(4,4)", values: []string{"0.0000", "0.5000", "-0.5000", "0.0001", "-0.9999"}},
		{kind: "decimal(38,10)", typ: "DECIMAL(38,10)", values: []string{"0.0000000000", "0.0000000001", "-1.5000000000", "1234567890123456789012345678.0123456789"}},
		{kind: "bool", typ: "BOOLEAN", values: []string{"true", "false"}},
		{kind: "date", typ: "DATE", values: []string{"0001-01-01", "1582-10-10", "1969-12-31", "2000-02-29", "2026-09-01", "9999-12-31"}},
		{kind: "timestamp", typ: "TIMESTAMP", values: []string{"0001-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999", "2026-03-08T02:30:00.000000", "2026-09-01T01:02:03.120000", "9999-12-31T23:59:59.999999"}},
		{kind: "timestamptz", typ: "TIMESTAMP WITH TIME ZONE", values: []string{"1969-12-31T23:59:59.999999+00", "2026-11-01T05:30:00.250000+00", "2026-11-01T06:30:00.250000+00", "2026-09-01T03:04:05.123456+02", "2026-09-01T01:04:05.123456+00"}},
		{kind: "uuid", typ: "UUID", values: []string{"00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "ffffffff-ffff-4fff-bfff-ffffffffffff"}},
	}
)

// sequence is one random history of one target.
type sequence struct {
	*bench
	*rand.Rand
	columns []Column // of the SELECT
	samples map[string]sample
	keys    []string
	compare []string
	pool    []Row // keys to choose from
}

func randomSequences(t *testing.T, env *handlers.Env, backend Backend) {
	t.Logf("-seed %d", *seed)
	n := *sequences
	if enough := backend.Sequences; enough > 0 {
		if *whole {
			enough *= 4
		}
		n = min(n, enough)
	}
	for i := range n {
		t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, env, backend)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("repeat with -seed %d -sequences %d -run '%s'", *seed, i+1, t.Name())
				}
			})
			s := &sequence{bench: b, Rand: rand.New(rand.NewPCG(*seed, uint64(i))), samples: map[string]sample{}}
			b.env.CountTarget = s.IntN(8) > 0
			s.shape()
			switch i % 8 {
			case 0, 1, 2:
				s.merges("SCD1_MERGE")
			case 3, 4, 5:
				s.merges("SCD2_MERGE")
			case 6:
				s.appends()
			default:
				s.replacements()
			}
		})
	}
}

func (s *sequence) chance(percent int) bool { return s.IntN(100) < percent }

// column adds a column of a random type.
func (s *sequence) column(name string) Column {
	all := s.backend.samples()
	sm := all[s.IntN(len(all))]
	s.samples[name] = sm
	c := Column{name, sm.kind, sm.typ}
	s.columns = append(s.columns, c)
	return c
}

// shape chooses the SELECT's columns: keys, compare columns, others.
func (s *sequence) shape() {
	for i := range 1 + s.IntN(2) {
		s.keys = append(s.keys, s.column(fmt.Sprintf("k%d", i)).Name)
	}
	for i := range 1 + s.IntN(5) {
		s.compare = append(s.compare, s.column(fmt.Sprintf("v%d", i)).Name)
	}
	for i := range s.IntN(3) {
		s.column(fmt.Sprintf("o%d", i))
	}
	s.samples["seq"] = sample{kind: "int", typ: "INTEGER", values: intSample.values}
	s.columns = append(s.columns, Column{"seq", "int", "INTEGER"})
	if s.chance(20) {
		s.compare = append(s.compare, s.keys[0])
	}
	s.Shuffle(len(s.columns), func(i, j int) { s.columns[i], s.columns[j] = s.columns[j], s.columns[i] })
	s.Shuffle(len(s.compare), func(i, j int) { s.compare[i], s.compare[j] = s.compare[j], s.compare[i] })
	for range 6 {
		key := Row{}
		for _, k := range s.keys {
			key[k] = s.pick(s.samples[k])
		}
		s.pool = append(s.pool, key)
	}
}

func (s *sequence) pick(sm sample) *string { return text(sm.values[s.IntN(len(sm.values))]) }

// rows makes a SELECT's rows; keys are distinct where distinct is true, as the target stores them.
func (s *sequence) rows(columns []Column, n int, distinct bool) []Row {
	var rows []Row
	for range n {
		r := Row{}
		for _, c := range columns {
			if !s.chance(15) {
				r[c.Name] = s.pick(sampleOf(s.samples[c.Name], c))
			}
		}
		for k, v := range s.pool[s.IntN(len(s.pool))] {
			r[k] = v
		}
		taken := slices.ContainsFunc(rows, func(other Row) bool { return s.sameStored(other, r) })
		if !distinct || !taken {
			rows = append(rows, r)
		}
	}
	return rows
}

func sampleOf(sm sample, c Column) sample {
	if sm.wider != nil && sm.wider.typ == c.Type {
		return *sm.wider
	}
	return sm
}

func (s *sequence) sameStored(a, b Row) bool {
	for _, k := range s.keys {
		x, err := canonical(s.samples[k].kind, *a[k])
		if err != nil {
			s.Fatal(err)
		}
		y, err := canonical(s.samples[k].kind, *b[k])
		if err != nil {
			s.Fatal(err)
		}
		if x != y {
			return false
		}
	}
	return true
}

// selected are the SELECT's columns, some in a type that the target's takes.
func (s *sequence) selected(wider bool) []Column {
	columns := slices.Clone(s.columns)
	for i, c := range columns {
		if w := s.samples[c.Name].wider; wider && w != nil && !slices.Contains(s.keys, c.Name) && s.chance(50) {
			columns[i].Kind, columns[i].Type = w.kind, w.typ
		}
	}
	return columns
}

// merges is a life of a merge's target: set up, merged, deleted from, evolved, spoiled, tried again.
func (s *sequence) merges(action string) {
	s.again(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: s.columns, Compare: s.compare})
	for range 8 {
		switch n := s.IntN(100); {
		case n < 45:
			s.again(s.mergeRequest(action))
		case n < 65:
			s.again(s.deleteRequest())
		case n < 75:
			q := s.mergeRequest(action)
			s.evolveRequest(&q)
			s.again(q)
		case n < 82:
			s.spoil(action)
		case n < 92:
			s.apply(s.wrongRequest(action))
		case n < 96:
			s.again(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: s.columns, Compare: s.compare})
		default:
			all := Request{Action: "DELETE_ROWS", Hard: true, Keys: s.keys, Columns: s.keyColumns(), Rows: s.pool}
			s.again(all)
		}
	}
}

func (s *sequence) mergeRequest(action string) Request {
	q := Request{Action: action, Keys: s.keys, Compare: s.compare, Columns: s.selected(s.chance(40)),
		Preserve: action == "SCD1_MERGE" && s.chance(35)}
	duplicates := s.chance(35)
	q.Rows = s.rows(q.Columns, s.IntN(8), !duplicates)
	if duplicates {
		for i := range q.Rows {
			q.Rows[i]["seq"] = id(int64(i + s.IntN(2)*100))
		}
		q.Order = []OrderTerm{{"seq", s.chance(50), s.chance(30)}}
		if s.chance(40) {
			first := s.columns[s.IntN(len(s.columns))].Name
			if first != "seq" {
				q.Order = slices.Insert(q.Order, 0, OrderTerm{first, s.chance(50), s.chance(50)})
			}
		}
		if s.chance(15) && len(q.Rows) > 1 {
			q.Rows = append(q.Rows, maps.Clone(q.Rows[0])) // equal rows are no tie
		}
	}
	if s.oracle.Table != nil && s.chance(40) { // bring back what is there, so that many rows are unchanged
		q.Rows = append(q.Rows, s.unchanged(q.Columns, q.Rows)...)
	}
	return q
}

// unchanged are rows of the target as a SELECT would return them, keys of rows left out.
func (s *sequence) unchanged(columns []Column, rows []Row) []Row {
	var more []Row
	for _, t := range s.oracle.Table.Rows {
		r := Row{}
		for _, c := range columns {
			r[c.Name] = t[c.Name]
			if c.Kind == "timestamptz" && t[c.Name] != nil {
				r[c.Name] = text(*t[c.Name] + "+00")
			}
		}
		taken := func(other Row) bool { return s.sameStored(other, r) }
		if !slices.ContainsFunc(rows, taken) && !slices.ContainsFunc(more, taken) && s.fits(columns, r) {
			more = append(more, r)
		}
	}
	return more
}

// fits tells whether a row of the target can come from columns of other types.
func (s *sequence) fits(columns []Column, r Row) bool {
	for _, c := range columns {
		sm := s.samples[c.Name]
		if c.Type != sm.typ && r[c.Name] != nil && len(*r[c.Name]) > 8 {
			return false
		}
	}
	return true
}

func (s *sequence) keyColumns() []Column {
	var columns []Column
	for _, k := range s.keys {
		columns = append(columns, *find(s.columns, k))
	}
	return columns
}

func (s *sequence) deleteRequest() Request {
	q := Request{Action: "DELETE_ROWS", Keys: s.keys, Hard: s.chance(35), Columns: s.keyColumns()}
	if s.chance(20) { // by a column that is no key, and NULL in some rows
		c := s.columns[s.IntN(len(s.columns))]
		q.Keys, q.Columns = []string{c.Name}, []Column{c}
	}
	for range s.IntN(4) {
		r := Row{}
		maps.Copy(r, s.pool[s.IntN(len(s.pool))])
		for _, c := range q.Columns {
			if r[c.Name] == nil {
				r[c.Name] = s.pick(s.samples[c.Name])
			}
		}
		q.Rows = append(q.Rows, r)
	}
	return q
}

// evolveRequest lets the SELECT return one more column from now on.
func (s *sequence) evolveRequest(q *Request) {
	q.Evolve = true
	s.column(fmt.Sprintf("e%d", len(s.columns)))
	q.Columns = slices.Clone(s.columns)
	q.Rows, q.Order = s.rows(q.Columns, s.IntN(6), true), nil
}

// wrongRequest is one that must fail and change nothing, most of the time.
func (s *sequence) wrongRequest(action string) Request {
	q := s.mergeRequest(action)
	q.Order, q.Columns = nil, slices.Clone(s.columns)
	q.Rows = s.rows(q.Columns, 3, true)
	switch s.IntN(6) {
	case 0: // NULL key
		if len(q.Rows) > 0 {
			q.Rows[s.IntN(len(q.Rows))][s.keys[s.IntN(len(s.keys))]] = nil
		}
	case 1: // repeated key
		q.Rows = append(q.Rows, maps.Clone(q.Rows[0]))
	case 2: // tie between rows that differ
		twin := maps.Clone(q.Rows[0])
		twin["seq"] = text("12345")
		q.Rows = append(q.Rows, twin)
		q.Order = []OrderTerm{{s.compare[0], true, false}}
	case 3: // a column too many
		q.Columns = append(q.Columns, Column{"extra", "int", "INTEGER"})
	case 4: // a column too few
		q.Columns = slices.DeleteFunc(q.Columns, func(c Column) bool { return c.Name == "seq" })
	case 5: // another compare list, accepted when the target is empty
		q.Compare = s.compare[1:]
		if i := slices.IndexFunc(s.columns, func(c Column) bool { return !slices.Contains(s.compare, c.Name) }); i >= 0 {
			q.Compare = append(slices.Clone(s.compare), s.columns[i].Name)
		}
		if len(s.oracle.Table.Rows) == 0 {
			s.compare = q.Compare
		}
	}
	return q
}

// spoil puts another row of a key into the target, as a hand might.
func (s *sequence) spoil(action string) {
	rows := s.oracle.Table.Rows
	if len(rows) == 0 {
		return
	}
	r := maps.Clone(rows[s.IntN(len(rows))])
	r["created_by"], r["updated_by"] = text("somebody"), text("somebody")
	if s.chance(60) {
		name := s.columns[s.IntN(len(s.columns))].Name
		if !slices.Contains(s.keys, name) {
			r[name] = nil
			hash := hashOf(Request{Compare: s.compare}, r)
			r["hash_key"] = &hash
		}
	}
	if s.chance(15) {
		r["hash_key"] = nil
	}
	if s.chance(20) {
		r["delete_flag"] = text("Y")
	}
	if action == "SCD2_MERGE" {
		r["active_flag"] = text([]string{"Y", "Y", "N"}[s.IntN(3)])
	}
	s.insert(r)
}

// again applies a request; some are lost before or after their commit and then tried again, with the same rows or not.
func (s *sequence) again(q Request) {
	s.Helper()
	if !s.chance(25) {
		s.apply(q)
		return
	}
	q = s.request(q)
	var earlier []*attempted
	var sum Counts
	for range 1 + s.IntN(2) {
		lost := s.chance(50)
		if q.Evolve && !s.env.Dialect.Transactional {
			lost = false // the columns are there before what the attempt is lost with
		}
		if lost {
			got := s.attempt(q, s.params(q), earlier, true)
			if got.err == nil && got.attempt.Phase == "COMMITTING" {
				s.Fatal("the attempt ended although its commit could not be announced")
			}
			if got.err == nil { // it had nothing to write
				s.oracle.Apply(q)
				got.attempt.truth = true
			}
			earlier = append(earlier, got.attempt)
		} else {
			want, code := s.oracle.Apply(q)
			got := s.attempt(q, s.params(q), earlier, false)
			s.expect(got, want, s.total(q, sum, want), code)
			if code != "" {
				s.look()
				return
			}
			sum = s.total(q, sum, want)
			earlier = append(earlier, got.attempt)
		}
		s.lookAfter(lost)
		q = s.retry(q)
		if s.chance(30) && len(q.Order) == 0 && !q.Evolve && strings.HasSuffix(q.Action, "MERGE") {
			q.Rows = s.rows(q.Columns, s.IntN(5), true)
		}
	}
	want, code := s.oracle.Apply(q)
	got := s.attempt(q, s.params(q), earlier, false)
	s.expect(got, want, s.total(q, sum, want), code)
	s.look()
}

// lookAfter looks, leaving out the record of a lost attempt: it may be there before its rows are.
func (s *sequence) lookAfter(lost bool) {
	s.Helper()
	if lost && s.oracle.Table != nil && len(s.oracle.Table.Rows) == 0 && s.record.HashVersion == 2 {
		s.oracle.Hashed, s.oracle.Compare = true, s.record.CompareColumns
	}
	s.look()
}

// total adds the counts of an attempt to those of earlier ones that had committed, for actions that add up.
func (s *sequence) total(q Request, sum, c Counts) Counts {
	if !strings.HasSuffix(q.Action, "MERGE") && q.Action != "DELETE_ROWS" {
		return c
	}
	add := func(a, b *int64) *int64 {
		if a == nil {
			return b
		}
		n := *a + *b
		return &n
	}
	if c.Insert == nil {
		return c
	}
	return Counts{c.Source, c.Target, add(sum.Insert, c.Insert), add(sum.Update, c.Update), add(sum.Delete, c.Delete), add(sum.Written, c.Written)}
}

// appends is a life of an append's target.
func (s *sequence) appends() {
	s.again(Request{Action: "SETUP_TABLE", SetupFor: "APPEND_TABLE", Columns: s.columns})
	for range 8 {
		q := Request{Action: "APPEND_TABLE", Columns: s.selected(s.chance(40))}
		q.Rows = s.rows(q.Columns, s.IntN(6), false)
		switch n := s.IntN(100); {
		case n < 60:
			s.again(q)
		case n < 70: // without some columns
			q.Columns = q.Columns[:1+s.IntN(len(q.Columns))]
			s.again(q)
		case n < 75:
			q.Columns = append(q.Columns, Column{"extra", "int", "INTEGER"})
			s.apply(q)
		default:
			s.again(s.deleteRequest())
		}
	}
}

// replacements is a life of a target that is replaced: the table with it, or its rows only.
func (s *sequence) replacements() {
	if s.chance(50) {
		s.again(Request{Action: "SETUP_TABLE", SetupFor: "OVERWRITE_TABLE", Columns: s.columns})
		for range 7 {
			q := Request{Action: "OVERWRITE_TABLE", Columns: s.selected(s.chance(40))}
			q.Rows = s.rows(q.Columns, s.IntN(6), false)
			switch n := s.IntN(100); {
			case n < 60:
				s.again(q)
			case n < 80:
				s.evolveRequest(&q)
				s.again(q)
			default:
				q.Columns = q.Columns[1:]
				s.apply(q)
			}
		}
		return
	}
	for range 7 {
		q := Request{Action: "CREATE_TABLE", Columns: slices.Clone(s.columns)}
		s.Shuffle(len(q.Columns), func(i, j int) { q.Columns[i], q.Columns[j] = q.Columns[j], q.Columns[i] })
		q.Columns = q.Columns[:1+s.IntN(len(q.Columns))]
		q.Rows = s.rows(q.Columns, s.IntN(6), false)
		switch n := s.IntN(100); {
		case n < 80:
			s.again(q)
		default:
			s.again(Request{Action: "DROP_TABLE"})
		}
	}
}
