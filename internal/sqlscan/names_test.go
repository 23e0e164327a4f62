package sqlscan

import (
	"strings"
	"testing"
)

func (n Ident) String() string {
	if n.Quoted {
		return `"` + n.Name + `"`
	}
	return n.Name
}

func parse(t *testing.T, text string, syn Syntax) *Select {
	t.Helper()
	s, err := Parse(text, syn)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		syn        Syntax
		text, want string // names, then … when there may be more
	}{
		{PostgreSQL, "SELECT a, t.b, s.t.c, \"D\", e AS f, g h, 1 AS i, count(*) j, 'x' k FROM t", `a b c "D" f h i j k`},
		{PostgreSQL, "SELECT a, '1' AS \"x\"\"y\", $$run_date d, (SELECT 1 AS no) AS k", `a "x""y" d k`},
		{PostgreSQL, "SELECT DISTINCT a FROM t", "a"},
		{PostgreSQL, "SELECT DISTINCT ON (a, b) a, c FROM t", "a c"},
		{PostgreSQL, "SELECT ALL a FROM t", "a"},
		{PostgreSQL, "SELECT a, b", "a b"},
		{PostgreSQL, "SELECT a UNION SELECT b", "a"},
		{PostgreSQL, "(SELECT a FROM t) UNION (SELECT b FROM t)", "a"},
		{PostgreSQL, "WITH x AS (SELECT 1 AS no) SELECT a FROM x", "a"},
		{PostgreSQL, "WITH x AS (SELECT 1 AS no) (WITH y AS (SELECT 2) SELECT a FROM y)", "a"},
		{PostgreSQL, "SELECT CASE WHEN a THEN b ELSE c END AS d, extract(year FROM e) AS f FROM t", "d f"},
		{PostgreSQL, "SELECT a IS DISTINCT FROM b AS c, d FROM t", "c d"},
		{PostgreSQL, "SELECT a AS from, b AS order FROM t", "from order"},
		{PostgreSQL, "SELECT sum(a) OVER (PARTITION BY b ORDER BY c) AS d WHERE 1=1", "d"},
		{PostgreSQL, "SELECT a -- , b\n, c /* , d */ FROM t", "a c"},
		{PostgreSQL, "SELECT *", "…"},
		{PostgreSQL, "SELECT t.*, a FROM t", "a …"},
		{PostgreSQL, "SELECT a, b + 1 FROM t", "a …"},
		{PostgreSQL, "SELECT a * b AS c FROM t", "c"},
		{PostgreSQL, "SELECT count(*) FROM t", "…"},
		{PostgreSQL, "SELECT a::double precision, interval '1' day, NULL, current_date, a IS NULL, NOT a, b FROM t", "b …"},
		{PostgreSQL, "SELECT a AT TIME ZONE b, c COLLATE \"C\", sum(d) OVER w FROM t", "…"},
		{PostgreSQL, "SELECT FROM t", "…"},
		{PostgreSQL, "VALUES (1)", "…"},
		{PostgreSQL, "TABLE t", "…"},
		{PostgreSQL, "SELECT 0x1F, a FROM t", "a …"},
		{DuckDB, "SELECT a, b, FROM t", "a b"},
		{DuckDB, "SELECT x: a + 1, y::int AS z FROM t", "x z"},
		{DuckDB, "SELECT * EXCLUDE (a), COLUMNS('b') AS c, unnest(d) AS e, f FROM t", "f …"},
		{DuckDB, "SELECT a FROM t UNION BY NAME SELECT b FROM t", "a …"},
		{DuckDB, "WITH x AS (SELECT 1) FROM x SELECT a", "…"},
		{Snowflake, "SELECT TOP 3 a FROM t QUALIFY 1=1", "a"},
		{Databricks, "SELECT `a b`, \"text\", c FROM t", "\"a b\" c …"},
	} {
		names, complete := parse(t, c.text, c.syn).Columns()
		var got []string
		for _, n := range names {
			name := n.String()
			if n.Quoted {
				name = `"` + strings.ReplaceAll(n.Name, `"`, `""`) + `"`
			}
			got = append(got, name)
		}
		if !complete {
			got = append(got, "…")
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %q gives %s, want %s", c.syn.Warehouse, c.text, g, c.want)
		}
	}
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		syn        Syntax
		text, want string
	}{
		{PostgreSQL, "SELECT 1", ""},
		{PostgreSQL, "SELECT * FROM s.a, ONLY s.b AS x, d.s.c y JOIN s.e USING (k) LEFT JOIN LATERAL s.f z ON x.k = z.k", "s.a s.b d.s.c s.e s.f"},
		{PostgreSQL, "TABLE s.t", "s.t"},
		{PostgreSQL, "(TABLE s.t) UNION TABLE s.u", "s.t s.u"},
		{PostgreSQL, "WITH x AS (TABLE s.t) TABLE x", "s.t"},
		{PostgreSQL, "WITH x AS (SELECT 1) TABLE s.y", "s.y"},
		{PostgreSQL, `SELECT * FROM "S"."T", bare`, `"S"."T" bare`},
		{PostgreSQL, "SELECT (SELECT max(a) FROM s.a) FROM s.b WHERE EXISTS (SELECT 1 FROM s.c) AND k IN (SELECT k FROM s.d) ORDER BY (SELECT 1 FROM s.e)", "s.a s.b s.c s.d s.e"},
		{PostgreSQL, "SELECT * FROM (s.a JOIN s.b ON true) JOIN ((s.c CROSS JOIN s.d) CROSS JOIN s.e) ON true", "s.a s.b s.c s.d s.e"},
		{PostgreSQL, "SELECT * FROM ((SELECT 1 FROM s.a) x JOIN s.b ON true), (VALUES (1)) y, s.c", "s.a s.b s.c"},
		{PostgreSQL, "SELECT * FROM s.f(1), generate_series(1, (SELECT max(a) FROM s.a)) g, s.b", "s.a s.b"},
		{PostgreSQL, "SELECT * FROM ROWS FROM (f(1), g(2)) x, s.a", "s.a"},
		{PostgreSQL, "SELECT * FROM rows, only", "rows only"},
		{PostgreSQL, "SELECT extract(year FROM d), substring((SELECT b) FROM a), trim(both FROM e), x IS DISTINCT FROM y, x IS NOT DISTINCT FROM z FROM s.t", "s.t"},
		{PostgreSQL, "SELECT a, b FROM s.t WHERE a = 1 GROUP BY a, b ORDER BY c, d", "s.t"},
		{PostgreSQL, "SELECT 1 FROM s.a WHERE x UNION SELECT 1 FROM s.b", "s.a s.b"},
		{PostgreSQL, "SELECT array(SELECT 1 FROM s.a), b[(SELECT 1 FROM s.b)] FROM s.c", "s.a s.b s.c"},
		{PostgreSQL, "SELECT * FROM s.a TABLESAMPLE system (10), s.b x(c, d), s.c", "s.a s.b s.c"},
		{PostgreSQL, "SELECT a.from, b.join FROM s.t -- FROM s.no\n", "s.t"},

		// CTEs hide a table from where they stand on.
		{PostgreSQL, "WITH a AS (SELECT * FROM a), b AS (SELECT * FROM a JOIN b ON true) SELECT * FROM a, b, c, s.a", "a b c s.a"},
		{PostgreSQL, "WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM c", "c"},
		{PostgreSQL, "SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a", "a"},
		{PostgreSQL, "WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM a, b) x, b", "b"},
		{PostgreSQL, `WITH a AS (SELECT 1), "B" AS (SELECT 2) SELECT * FROM A, "a", "A", b, "B"`, `"A" b`},
		{Snowflake, `WITH a AS (SELECT 1) SELECT * FROM A, "A", "a"`, `"a"`},
		{DuckDB, `WITH a AS (SELECT 1) SELECT * FROM A, "A", "a"`, ""},

		{DuckDB, "WITH x AS (FROM s.a SELECT b, c) FROM x JOIN s.b ON true", "s.a s.b"},
		{DuckDB, "SELECT * FROM (PIVOT s.a ON b IN ('x') USING sum(a)), (UNPIVOT s.b ON c), (DESCRIBE s.c), (SUMMARIZE SELECT * FROM s.d)", "s.a s.b s.c s.d"},
		{DuckDB, "SELECT * FROM s.a PIVOT (sum(a) FOR b IN ('x')) p, s.b UNPIVOT INCLUDE NULLS (v FOR n IN (c, d)) u, 'x.csv', read_csv('y'), s.c", "s.a s.b s.c"},
		{DuckDB, "WITH x AS (SELECT 1) PIVOT s.a ON b IN ('x')", "s.a"},
		{Trino, "SELECT * FROM TABLE(f(input => TABLE(s.a) PARTITION BY x)), s.b FOR VERSION AS OF 3, s.c", "s.a s.b s.c"},
		{Trino, `SELECT * FROM c.s."t$snapshots" CROSS JOIN UNNEST(a) WITH ORDINALITY AS u(x, y)`, `c.s."t$snapshots"`},
		{Snowflake, "SELECT * FROM @db.s.stage/x (FILE_FORMAT => f), s.a AT (OFFSET => -60), TABLE(s.fn(1)), LATERAL FLATTEN(input => a) l", "s.a"},
		{Databricks, "SELECT * FROM `s`.`a b` LATERAL VIEW explode(x) e AS k, v WHERE k IN (SELECT 1 FROM s.c)", `"s"."a b" s.c`},
	} {
		var got []string
		for _, table := range parse(t, c.text, c.syn).Tables() {
			var parts []string
			for _, p := range []Ident{table.Database, table.Schema, table.Name} {
				if p.Name != "" {
					parts = append(parts, p.String())
				}
			}
			got = append(got, strings.Join(parts, "."))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %q gives %s, want %s", c.syn.Warehouse, c.text, g, c.want)
		}
	}
}

func TestTablePosition(t *testing.T) {
	tables := parse(t, "SELECT 'é',\n(SELECT 1 FROM é . t) FROM u", PostgreSQL).Tables()
	if len(tables) != 2 || tables[0].Line != 2 || tables[0].Column != 16 || tables[1].Column != 28 {
		t.Errorf("got %+v", tables)
	}
}
