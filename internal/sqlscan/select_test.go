package sqlscan

import (
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestParse(t *testing.T) {
	for _, c := range corpus {
		for _, d := range []struct {
			syn  Syntax
			want verdict
		}{{PostgreSQL, c.postgres}, {DuckDB, c.duckdb}} {
			_, err := Parse(c.text, d.syn)
			switch {
			case err != nil && d.want != refused:
				t.Errorf("%s: %q is refused: %v", d.syn.Warehouse, c.text, err)
			case err == nil && d.want == refused:
				t.Errorf("%s: %q is accepted", d.syn.Warehouse, c.text)
			case err == nil:
			case !fault.Has(err, fault.SelectInvalid), len(fault.As(err).Problems) != 1, fault.As(err).Problems[0].Line == 0:
				t.Errorf("%s: %q gives %#v", d.syn.Warehouse, c.text, err)
			case !strings.Contains(err.Error(), c.refusal):
				t.Errorf("%s: %q gives %q, want …%s…", d.syn.Warehouse, c.text, err, c.refusal)
			}
		}
	}
}

// What PostgreSQL and DuckDB do not have.
func TestParseOtherWarehouses(t *testing.T) {
	for _, c := range []struct {
		syn     Syntax
		text    string
		refusal string // "" when it is one query
	}{
		{Trino, `SELECT 'a\', "b;" FROM t`, ""},
		{Trino, "SELECT $x$;$x$", "second statement"},
		{Trino, "SELECT /* /* */ 1", ""},
		{Trino, `SELECT U&"a;" FROM t`, ""},
		{Trino, "SELECT * FROM t FOR VERSION AS OF 3", ""},
		{Trino, "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (a b+? c?) DEFINE a AS x > 1)", ""},
		{Trino, "VALUES 1, 2", ""},
		{Snowflake, `SELECT 'a\';', 'b''c;'`, ""},
		{Snowflake, "SELECT $$;'$$", ""},
		{Snowflake, "SELECT $x$;$x$", "second statement"},
		{Snowflake, "SELECT 1 // it's\n", ""},
		{Snowflake, "SELECT /* /* */ 1", ""},
		{Snowflake, "SELECT t.$1, $var, a:b.c FROM @stage t", ""},
		{Snowflake, "SELECT 1 ->> INSERT INTO t SELECT * FROM $1", "->> at 1:10"},
		{Snowflake, "SELECT a - >> 1", ""},
		{PostgreSQL, "SELECT a ->> 'b'", ""},
		{Databricks, `SELECT 'a\';', "b\";", r'\', R"\", ` + "`c;``` FROM t", ""},
		{Databricks, `SELECT 'a\\'; DROP TABLE t`, "second statement"},
		{Databricks, "SELECT 1 -- \\\n; still a comment\n", ""},
		{Databricks, "SELECT 1 -- \\ \n; DROP TABLE t\n", "second statement"},
		{Databricks, "SELECT /* /* ; */ ; */ 1", ""},
		{Databricks, "SELECT 1 -- \\", "would go on"},
		{Trino, "SELECT 1 -- \\", ""},
		{Databricks, "SELECT `a", "the quoted name at 1:8"},
		{Databricks, "SELECT r'a", "the string at 1:8"},
		{Databricks, "WITH x AS (SELECT 1) FROM x INSERT INTO t SELECT *", "followed by FROM"},
		{Databricks, "FROM x INSERT INTO t SELECT *", "begins with FROM"},
		{Databricks, "WITH a AS (SELECT 1) WITH b AS (SELECT 2) DELETE FROM t", "followed by DELETE"},
	} {
		_, err := Parse(c.text, c.syn)
		if c.refusal == "" && err != nil {
			t.Errorf("%s: %q is refused: %v", c.syn.Warehouse, c.text, err)
		}
		if c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %q gives %v, want …%s…", c.syn.Warehouse, c.text, err, c.refusal)
		}
	}
}

func TestBody(t *testing.T) {
	for text, want := range map[string]string{
		"\uFEFFSELECT 1":                    "SELECT 1",
		"SELECT 1;":                         "SELECT 1",
		"SELECT 1;\n-- after\n;":            "SELECT 1",
		"-- before\r\nSELECT 1\r\n-- x\r\n": "-- before\r\nSELECT 1\r\n-- x\r\n",
		"SELECT ';' -- a;b\n;":              "SELECT ';' -- a;b\n",
	} {
		s, err := Parse(text, PostgreSQL)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got := s.Body(); got != want {
			t.Errorf("%q: body %q, want %q", text, got, want)
		}
	}
}

// Every refusal says where and, in the hint, what to do instead.
func TestRefusalText(t *testing.T) {
	_, err := Parse("SELECT a\nFROM t\nWHERE é = 1 FOR UPDATE", PostgreSQL)
	e := fault.As(err)
	p := e.Problems[0]
	if e.Message != "FOR UPDATE at 3:13 locks rows" || e.Hint == "" || p.Line != 3 || p.Column != 13 || p.Hint != e.Hint {
		t.Errorf("got %+v", e)
	}
	_, err = Parse("SELECT $run_date", DuckDB)
	if e := fault.As(err); e.Hint != "did you mean $$run_date?" {
		t.Errorf("hint %q", e.Hint)
	}
}
