package warehousetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/warehouses"
)

// look compares the target with the reference: columns in order, all rows, and that no ROW_ID is used twice.
func (b *bench) look() {
	b.Helper()
	name := warehouses.QualifiedName{Database: b.session.Facts().Database, Schema: b.env.Dialect.FoldName(b.schema), Table: b.env.Dialect.FoldName("t")}
	found, err := b.session.Table(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	if (found == nil) != (b.oracle.Table == nil) {
		b.Fatalf("the target exists: %t, want %t", found != nil, b.oracle.Table != nil)
	}
	if found == nil {
		b.before, b.gone = nil, map[string]bool{} // a dropped table's ids end with it
		return
	}
	if b.oracle.Hashed != (b.record.HashVersion == 2) || b.oracle.Compare != b.record.CompareColumns {
		b.Errorf("recorded hash version %d of %q, want hashed %t of %q", b.record.HashVersion, b.record.CompareColumns, b.oracle.Hashed, b.oracle.Compare)
	}
	b.compareColumns(found)
	rows := b.read()
	b.compareIDs(rows, found.Column("row_id").Generator != "")
	got, want := make([]string, len(rows)), make([]string, len(b.oracle.Table.Rows))
	for i, r := range rows {
		got[i] = b.render(r)
	}
	for i, r := range b.oracle.Table.Rows {
		want[i] = b.render(r)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("rows differ\nonly in the target:\n  %s\nonly in the reference:\n  %s", strings.Join(without(got, want), "\n  "), strings.Join(without(want, got), "\n  "))
	}
	if b.Failed() {
		b.FailNow()
	}
}

func (b *bench) compareColumns(found *warehouses.Table) {
	b.Helper()
	var got, want []string
	for _, c := range found.Columns {
		got = append(got, strings.ToLower(c.Name))
	}
	for _, c := range b.oracle.Table.Columns {
		want = append(want, c.Name)
	}
	if !slices.Equal(got, want) {
		b.Errorf("columns %v, want %v", got, want)
	}
}

// compareIDs checks that each row keeps its ROW_ID and that a generator gives none out again. One that is computed goes on
// after the highest that is there.
func (b *bench) compareIDs(rows []Row, generated bool) {
	b.Helper()
	now := map[string]string{}
	for _, r := range rows {
		rowID := r["row_id"]
		if rowID == nil {
			b.Error("a row has no ROW_ID")
			continue
		}
		created := plain(r["create_date"])
		if _, twice := now[*rowID]; twice {
			b.Errorf("ROW_ID %s stands twice", *rowID)
		}
		if generated && b.gone[*rowID] {
			b.Errorf("ROW_ID %s is used again", *rowID)
		}
		if old, ok := b.before[*rowID]; ok && old != created {
			b.Errorf("ROW_ID %s was of a row created at %s, now of one created at %s", *rowID, old, created)
		}
		now[*rowID] = created
	}
	for r := range b.before {
		if _, there := now[r]; !there {
			b.gone[r] = true
		}
	}
	b.before = now
}

// read gives all rows of the target as canonical text.
func (b *bench) read() []Row {
	b.Helper()
	columns := b.oracle.Table.Columns
	var exprs []string
	for _, c := range columns {
		q := b.ident(c.Name)
		exprs = append(exprs, "CASE WHEN "+q+" IS NULL THEN 'N' ELSE 'V' || CAST("+q+" AS VARCHAR) END")
	}
	found, err := b.session.Rows(b.Context(), warehouses.SQL("SELECT "+strings.Join(exprs, ", ")+" FROM "+b.target()), 1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	var rows []Row
	for _, texts := range found {
		r := Row{}
		for i, c := range columns {
			if value, set := strings.CutPrefix(texts[i], "V"); set {
				v, err := canonical(c.Kind, value)
				if err != nil {
					b.Fatalf("column %s: %v", c.Name, err)
				}
				r[c.Name] = &v
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// render shows a row without its ROW_ID.
func (b *bench) render(r Row) string {
	var parts []string
	for _, c := range b.oracle.Table.Columns {
		if c.Name != "row_id" {
			parts = append(parts, c.Name+"="+plain(r[c.Name]))
		}
	}
	return strings.Join(parts, " ")
}

func plain(v *string) string {
	if v == nil {
		return "NULL"
	}
	return fmt.Sprintf("%q", *v)
}

// value runs a query for one text.
func (b *bench) value(query string) string {
	b.Helper()
	rows, err := b.session.Rows(b.Context(), warehouses.SQL(query), 1)
	if err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	if len(rows) == 0 {
		b.Fatalf("%s: no row", query)
	}
	return rows[0][0]
}

// without lists what a has more often than b; both are sorted.
func without(a, b []string) []string {
	left := map[string]int{}
	for _, s := range b {
		left[s]++
	}
	var more []string
	for _, s := range a {
		if left[s] == 0 {
			more = append(more, s)
			continue
		}
		left[s]--
	}
	return more
}
