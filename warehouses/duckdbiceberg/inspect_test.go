package duckdbiceberg

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/warehouses"
)

// TestStored: every type that DuckDB has is stored as a type that a table takes, or refused.
func TestStored(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	s := connect(t, open(t, o))
	for typ, want := range map[string]string{
		"TINYINT": "INTEGER", "SMALLINT": "INTEGER", "INTEGER": "INTEGER", "BIGINT": "BIGINT", "HUGEINT": "DECIMAL(38,0)",
		"UTINYINT": "INTEGER", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)", "UHUGEINT": "DECIMAL(38,0)",
		"FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "DECIMAL(4,4)": "DECIMAL(4,4)", "BOOLEAN": "BOOLEAN", "VARCHAR": "VARCHAR", "BLOB": "BLOB", "UUID": "UUID",
		"DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
		"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE", "JSON": "VARCHAR", "ENUM('a')": "VARCHAR",
		"INTEGER[]": "INTEGER[]", "STRUCT(a INTEGER)": "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)": "MAP(VARCHAR, INTEGER)",
		"BIT": "", "INTERVAL": "", "TIMETZ": "", "INTEGER[3]": "", "UNION(a INTEGER)": "",
	} {
		described, err := s.Describe(t.Context(), warehouses.SQL("SELECT CAST(NULL AS "+typ+") AS v"))
		if err != nil {
			t.Fatal(err)
		}
		got := stored(described[0].Type, warehouses.FormatIceberg)
		if string(got.SQL) != want {
			t.Errorf("%s is stored as %q, want %q", typ, got.SQL, want)
		}
		if want == "" {
			continue
		}
		s.do("CREATE TABLE " + name + ".t (v " + string(got.SQL) + ")")
		table, err := s.Table(t.Context(), warehouses.QualifiedName{Database: "lake", Schema: name, Table: "t"})
		if err != nil || table.Columns[0].Type.SQL != got.SQL {
			t.Errorf("%s: the table has %+v, %v", typ, table, err)
		}
		s.do("DROP TABLE " + name + ".t")
	}
}

// TestReplacement finds what columns have besides values, and nothing of a table that is not committed.
func TestReplacement(t *testing.T) {
	o := server(t)
	name := schema(t, o, "t")
	s := connect(t, open(t, o))
	at := &warehouses.Table{Name: warehouses.QualifiedName{Database: "lake", Schema: name, Table: "t"}}
	s.begin()
	s.do("CREATE TABLE " + name + ".t (d DATE, i INTEGER NOT NULL) PARTITIONED BY (month(d))")
	r, err := s.Replacement(t.Context(), at)
	if err != nil || len(r.Bound) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err = s.Replacement(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	want := []warehouses.Bound{{Column: "d", What: "the partition field month", Keeps: true}, {Column: "i", What: "NOT NULL"}}
	if diff := cmp.Diff(want, r.Bound); diff != "" {
		t.Error(diff)
	}
}
