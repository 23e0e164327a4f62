package sqlscan

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// readings are texts with the tables a to f that they read, by the servers' own account too. All have the columns k and x
// of INTEGER, t of TEXT, v of INTEGER[].
var readings = []struct {
	on   string // P for PostgreSQL, D for DuckDB
	text string
	want string
}{
	{"PD", "SELECT 1", ""},
	{"PD", "TABLE a", "a"},
	{"PD", "VALUES ((SELECT max(k) FROM a))", "a"},
	{"PD", "SELECT a.k FROM a, b AS z JOIN c USING (k), d", "a b c d"},
	{"PD", "SELECT 1 FROM a JOIN b ON a.k = b.k AND a.x IN (1, 2), c", "a b c"},
	{"PD", "SELECT 1 FROM a LEFT JOIN b USING (k, x), c", "a b c"},
	{"PD", "SELECT 1 FROM a NATURAL JOIN b CROSS JOIN c", "a b c"},
	{"PD", "SELECT 1 FROM (a JOIN b USING (k)) JOIN ((c CROSS JOIN d) CROSS JOIN e) ON true", "a b c d e"},
	{"PD", "SELECT 1 FROM a AS b(n, o), c AS a", "a c"},
	{"PD", "SELECT 1 FROM a, LATERAL (SELECT b.x FROM b WHERE b.k = a.k) z, c", "a b c"},
	{"PD", "SELECT 1 FROM a CROSS JOIN LATERAL (SELECT max(x) FROM b WHERE b.k = a.k) z(m), c", "a b c"},
	{"PD", "SELECT 1 FROM a, unnest(ARRAY[1, 2]) u(n), c", "a c"},
	{"PD", "SELECT 1 FROM generate_series(1, (SELECT max(k) FROM a)) g(n), b", "a b"},
	{"PD", "SELECT 1 FROM (VALUES (1, 'b'), (2, 'c')) z(n, o), a", "a"},
	{"PD", "SELECT (SELECT max(x) FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.k = b.k) AND NOT b.k IN (SELECT k FROM d) ORDER BY (SELECT max(k) FROM e)", "a b c d e"},
	{"PD", "SELECT CASE WHEN EXISTS (SELECT 1 FROM a WHERE a.k = b.k) THEN (SELECT max(k) FROM c) END FROM b", "a b c"},
	{"PD", "SELECT x, count(*) FROM a GROUP BY x, k HAVING count(*) > (SELECT max(k) FROM b) ORDER BY x, k LIMIT 3 OFFSET 1", "a b"},
	{"PD", "SELECT sum(x) OVER w FROM a JOIN b USING (k, x) WINDOW w AS (PARTITION BY k ORDER BY x), w2 AS (ORDER BY k)", "a b"},
	{"PD", "SELECT k FROM a UNION ALL SELECT k FROM b EXCEPT (SELECT k FROM c INTERSECT SELECT k FROM d)", "a b c d"},
	{"PD", "SELECT * FROM ((SELECT k FROM a) UNION (SELECT k FROM b)) z", "a b"},
	{"PD", "SELECT * FROM (((SELECT k FROM a))) z", "a"},
	{"PD", "(TABLE a) UNION TABLE b", "a b"},
	{"PD", "WITH z AS (SELECT k FROM b) SELECT k IN (TABLE z), (TABLE z LIMIT 1) FROM a", "a b"},
	{"PD", "SELECT extract(year FROM d), trim(both 'x' FROM e), substring(e FROM 1 FOR 2), d IS DISTINCT FROM d, d IS NOT DISTINCT FROM d FROM (SELECT DATE '2026-01-01' AS d, 't' AS e FROM f) q, a", "a f"},
	{"P", "SELECT position('x' IN t), overlay(t PLACING 'x' FROM 1) FROM a", "a"},
	{"PD", "SELECT/**/1/* FROM b */FROM/**/a/**/,/**/c-- , d\n, e", "a c e"},
	{"PD", "SELECT 'FROM b', \"x\" FROM a -- JOIN c\n", "a"},
	{"PD", "SELECT DISTINCT ON (k) x FROM a ORDER BY k, x", "a"},
	{"P", "SELECT 1 FROM a TABLESAMPLE SYSTEM (10), b TABLESAMPLE BERNOULLI (10) REPEATABLE (1), c", "a b c"},
	{"D", "SELECT 1 FROM a TABLESAMPLE SYSTEM (10%), b TABLESAMPLE 10%, c", "a b c"},
	{"PD", "SELECT \"B\".k FROM a AS \"B\", \"c\"", "a c"},

	// Names that CTEs hide.
	{"PD", "WITH z AS (SELECT * FROM a) SELECT * FROM z, b", "a b"},
	{"PD", "WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"},
	{"PD", "WITH a AS (SELECT 1 AS k) SELECT * FROM a", ""},
	{"PD", "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", "b"},
	{"PD", "WITH a AS (SELECT * FROM a), b AS (SELECT k FROM a JOIN b USING (k)) SELECT * FROM a, b, c", "a b c"},
	{"PD", "SELECT * FROM (WITH a AS (SELECT 1 AS k) SELECT * FROM a) z, a", "a"},
	{"PD", "SELECT * FROM (WITH a AS (SELECT 1 AS k) SELECT * FROM a) z, b", "b"},
	{"PD", "WITH a AS (SELECT 1 AS k) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT a.k FROM a, b) z, b", "b"},
	{"PD", "WITH a AS (WITH a AS (SELECT * FROM a) SELECT * FROM a) SELECT * FROM a", "a"},
	{"PD", "WITH a AS (SELECT 1 AS k) SELECT (SELECT max(k) FROM a) FROM b WHERE EXISTS (WITH b AS (SELECT 2 AS k) SELECT 1 FROM a, b)", "b"},
	{"PD", "WITH a AS (SELECT 1 AS k) SELECT k FROM a UNION SELECT k FROM b UNION SELECT k FROM a", "b"},
	{"PD", "(WITH a AS (SELECT 1 AS k) SELECT k FROM a) UNION SELECT k FROM a", "a"},
	{"PD", "WITH RECURSIVE z(n) AS (SELECT k FROM a UNION ALL SELECT n + b.x FROM z JOIN b ON b.k = z.n WHERE n < 3) SELECT * FROM z", "a b"},
	{"PD", "WITH RECURSIVE a(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM a WHERE k < 3) SELECT a.k FROM a, b", "b"},
	{"PD", "WITH a AS MATERIALIZED (SELECT k FROM b), c AS NOT MATERIALIZED (SELECT k FROM a) SELECT k FROM c JOIN a USING (k)", "b"},
	{"PD", "WITH z AS (TABLE a) TABLE z", "a"},
	{"PD", "WITH z AS (SELECT 1 AS k) TABLE b", "b"},
	{"PD", "WITH \"A\" AS (SELECT 1 AS k) SELECT 1 FROM b", "b"},
	{"P", "WITH \"A\" AS (SELECT 1 AS k) SELECT a.k FROM a, \"A\"", "a"},
	{"D", "WITH \"A\" AS (SELECT 1 AS k) SELECT a.k FROM a, b", "b"},

	// PostgreSQL's own.
	{"P", "SELECT 1 FROM ONLY a, ONLY (b), c *", "a b c"},
	{"P", "TABLE ONLY a", "a"},
	{"P", "SELECT FROM a", "a"},
	{"P", "WITH z AS (SELECT k FROM b) SELECT ARRAY(TABLE z), EXISTS (TABLE ONLY c) FROM a", "a b c"},
	{"P", "SELECT ARRAY(SELECT k FROM a), v[(SELECT max(k) FROM b)] FROM c", "a b c"},
	{"P", "SELECT 1 FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY[1])) z(n, o), a", "a"},
	{"P", "SELECT 1 FROM json_to_record('{}') AS z(update int, b text), a", "a"},
	{"P", "SELECT 1 FROM a LEFT JOIN LATERAL unnest(a.v) WITH ORDINALITY AS u(n, o) ON true, b", "a b"},
	{"P", "SELECT 1 FROM XMLTABLE('/r' PASSING ('<r/>'::xml) COLUMNS n int PATH 'n', o text PATH 'o') z, a", "a"},
	{"P", "SELECT k = ANY (SELECT k FROM b), (k, x) IN (SELECT k, x FROM c) FROM a", "a b c"},
	{"P", "WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT 1 AS k) SELECT * FROM a", ""},
	{"P", "WITH RECURSIVE z(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM z WHERE n < 3) SEARCH DEPTH FIRST BY n SET o SELECT z.n FROM z, a", "a"},
	{"P", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FILTER (WHERE x IN (SELECT x FROM b)) FROM a", "a b"},
	{"P", "SELECT 1 FROM a JOIN b USING (k) AS j, c", "a b c"},
	{"P", "SELECT minus FROM a JOIN (SELECT 1 AS minus) z ON minus = k, b", "a b"},

	// DuckDB's own.
	{"D", "SELECT * FROM (FROM a)", "a"},
	{"D", "WITH z AS (FROM a SELECT k) FROM z SELECT k", "a"},
	{"D", "WITH z AS (FROM a, b SELECT a.k, b.x WHERE a.k > 1) SELECT * FROM z", "a b"},
	{"D", "SELECT * FROM (FROM a JOIN b USING (k)) z, c", "a b c"},
	{"D", "SELECT EXISTS (FROM a), [n FOR n IN [1, 2] IF n > 1], [(SELECT max(k) FROM b)], {'p': (SELECT max(k) FROM c)} FROM d", "a b c d"},
	{"D", "SELECT * FROM z: a, y: (SELECT 1 FROM b), a JOIN w: c ON true", "a b c"},
	{"D", "SELECT * FROM (PIVOT a ON x IN (1), t IN ('y') USING sum(k), max(k) GROUP BY v), b", "a b"},
	{"D", "SELECT * FROM (PIVOT (SELECT k, x, t FROM a) ON x IN (1) USING sum(k)), b", "a b"},
	{"D", "SELECT * FROM (PIVOT a JOIN (SELECT k, x AS n FROM b) z USING (k) ON n IN (1), t IN ('y') USING sum(k))", "a b"},
	{"D", "SELECT * FROM (UNPIVOT (SELECT k, x FROM a) ON k, x), b", "a b"},
	{"D", "SELECT * FROM (UNPIVOT a ON k, x), b", "a b"},
	{"D", "SELECT * FROM a PIVOT (sum(k) FOR x IN (1, 2) t IN ('y')) p, b UNPIVOT INCLUDE NULLS (n FOR m IN (k, x)) u, c", "a b c"},
	{"D", "SELECT * FROM a ASOF JOIN b ON a.k = b.k AND a.x >= b.x, c POSITIONAL JOIN d", "a b c d"},
	{"D", "SELECT * FROM a SEMI JOIN b USING (k) ANTI JOIN c USING (k)", "a b c"},
	{"D", "SELECT * EXCLUDE (k) REPLACE (x + 1 AS x), COLUMNS('t') AS e FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x) = 1", "a"},
	{"D", "SELECT k FROM a UNION BY NAME SELECT x FROM b", "a b"},
	{"D", "SELECT k FROM a UNION ALL BY NAME FROM b", "a b"},
	{"D", "SELECT k FROM a GROUP BY ALL ORDER BY ALL LIMIT 10%", "a"},
	{"D", "SELECT k FROM a USING SAMPLE 10%", "a"},
	{"D", "SELECT list_transform(v, lambda n: n + 1) FROM a", "a"},
	{"D", "SELECT * FROM \"a\", main.b, memory.main.c, 'd'", "a b c d"},
	{"D", "WITH RECURSIVE z(n, o) USING KEY (n) AS (SELECT 1, 1 UNION ALL SELECT z.n, z.o + 1 FROM z, recurring.z AS r WHERE z.o < 3) SELECT z.n FROM z, a", "a"},
	{"D", "SELECT * FROM (SUMMARIZE a), (SUMMARIZE SELECT * FROM b)", "a b"},
	{"D", "SELECT * FROM range(3) r(n), LATERAL (SELECT n + k FROM a) z", "a"},
	{"D", "SELECT a.* FROM a, b,", "a b"},
}

func createTables(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, table := range strings.Fields("a b c d e f") {
		if _, err := conn.Exec(t.Context(), "CREATE TEMP TABLE "+table+"(k int, x int, t text, v int[])"); err != nil {
			t.Fatal(err)
		}
	}
}

// openTables is a DuckDB with the tables, which plans without optimizing.
func openTables(t *testing.T) *sql.Conn {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	execDuck(t, c, "PRAGMA disable_optimizer")
	for _, table := range strings.Fields("a b c d e f") {
		execDuck(t, c, "CREATE TABLE "+table+"(k int, x int, t text, v int[])")
	}
	return c
}

func TestReadsPostgres(t *testing.T) {
	forPostgres(t, func(t *testing.T, conn *pgx.Conn) {
		createTables(t, conn)
		for _, r := range readings {
			if !strings.Contains(r.on, "P") {
				continue
			}
			want, err := dependencies(t, conn, r.text)
			if err != nil {
				t.Errorf("%q: %v", r.text, err)
				continue
			}
			if got := scanned(t, r.text, PostgreSQL); !slices.Equal(got, want) || !slices.Equal(got, strings.Fields(r.want)) {
				t.Errorf("%q: %v, PostgreSQL records %v, want %s", r.text, got, want, r.want)
			}
		}
	})
}

func TestReadsDuckDB(t *testing.T) {
	c := openTables(t)
	for _, r := range readings {
		if !strings.Contains(r.on, "D") {
			continue
		}
		want, err := plannedByDuckDB(t, c, r.text)
		if err != nil {
			t.Errorf("%q: %v", r.text, err)
			continue
		}
		if got := scanned(t, r.text, DuckDB); !slices.Equal(got, want) || !slices.Equal(got, strings.Fields(r.want)) {
			t.Errorf("%q: %v, DuckDB plans %v, want %s", r.text, got, want, r.want)
		}
	}
}

// What no server here can tell: tables, then, behind a bar, what cannot be known.
func TestReads(t *testing.T) {
	for _, c := range []struct {
		syn        Syntax
		text, want string
	}{
		{Trino, "SELECT * FROM hive.s.a JOIN s.b USING (k), s.c AS x(n) TABLESAMPLE BERNOULLI (10), s.d", "hive.s.a s.b s.c s.d"},
		{Trino, "SELECT * FROM s.a FOR VERSION AS OF 123, s.b FOR TIMESTAMP AS OF TIMESTAMP '2026-01-01 00:00:00 UTC' x, s.c", "s.a s.b s.c"},
		{Trino, "SELECT * FROM s.a CROSS JOIN UNNEST(a.m, a.n) WITH ORDINALITY AS u(p, q, o), s.b", "s.a s.b"},
		{Trino, "SELECT * FROM (VALUES (1, current_date), (2, current_date)) v(a, b), s.a", "s.a"},
		{Trino, "SELECT * FROM TABLE(exclude_columns(input => TABLE(s.a), columns => DESCRIPTOR(k))), s.b", "s.a s.b"},
		{Trino, "SELECT * FROM TABLE(f(input => TABLE(SELECT * FROM s.a) PARTITION BY k ORDER BY x, y, other => TABLE(s.b)))", "s.a s.b | the function f"},
		{Trino, "SELECT * FROM TABLE(pg.system.query(query => 'SELECT * FROM t'))", " | the function pg.system.query"},
		{Trino, "SELECT * FROM TABLE(sequence(start => 1, stop => 9)) t", ""},
		{Trino, "SELECT * FROM s.a MATCH_RECOGNIZE (PARTITION BY k ORDER BY d MEASURES FINAL last(x) AS l, A.x AS m ONE ROW PER MATCH PATTERN (A B+) SUBSET u = (A, B) DEFINE B AS B.x < PREV(B.x), A AS true) AS m, s.b", "s.a s.b"},
		{Trino, "SELECT * FROM s.a CROSS JOIN JSON_TABLE(a.j, 'lax $' COLUMNS(n INTEGER PATH 'lax $.n', NESTED PATH 'lax $.x' COLUMNS (y INTEGER))) j, s.b", "s.a s.b"},
		{Trino, "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3), y AS (SELECT * FROM s.a) SELECT * FROM x, Y, \"Y\", z", "s.a z"},
		{Trino, "SELECT nth_value(x, 2) FROM FIRST OVER (PARTITION BY k), listagg(x, ',') WITHIN GROUP (ORDER BY y) FROM s.a", "s.a"},
		{Trino, "TABLE c.s.t", "c.s.t"},
		{Trino, "SELECT * FROM a.b.c.d, \"s.x\".\"t.y\"", `"s.x"."t.y" | a name of more than three parts, a…`},
		{Trino, "SELECT * FROM (s.a LEFT JOIN (s.b CROSS JOIN s.c) ON true), LATERAL (SELECT max(k) FROM s.d WHERE d.k = a.k)", "s.a s.b s.c s.d"},
		{Trino, "SELECT * FROM s.a WHERE (k, x) IN (SELECT k, x FROM s.b) AND x > ALL (SELECT x FROM s.c) EXCEPT ALL TABLE s.d", "s.a s.b s.c s.d"},

		{Databricks, "SELECT * FROM s.a LATERAL VIEW OUTER explode(m) e AS k, v LATERAL VIEW posexplode(n) f JOIN s.b USING (k)", "s.a s.b"},
		{Databricks, "SELECT * FROM VALUES (1, current_date), (2, current_date) AS v(a, b), s.a", "s.a"},
		{Databricks, "SELECT * FROM delta.`/mnt/x`, parquet.`s3://b/p/*.parquet`, s.a", "s.a | the files delta.`/mnt/x` the files parquet.`s3://b/p/*.parquet`"},
		{Databricks, "SELECT * FROM s.a VERSION AS OF 3, s.b TIMESTAMP AS OF '2026-01-01', s.c@v5, s.d FOR SYSTEM_VERSION AS OF 2, s.e", "s.a s.b s.c s.d s.e"},
		{Databricks, "SELECT k, x FROM s.a DISTRIBUTE BY k, x SORT BY x, k", "s.a"},
		{Databricks, "SELECT k, x FROM s.a CLUSTER BY k, x", "s.a"},
		{Databricks, "SELECT * FROM s.a LEFT SEMI JOIN s.b ON a.k = b.k LEFT ANTI JOIN s.c USING (k), s.d TABLESAMPLE (5 PERCENT), s.e", "s.a s.b s.c s.d s.e"},
		{Databricks, "SELECT * FROM s.a PIVOT (sum(x) AS n, avg(y) AS m FOR (k, z) IN ((1, 'a') AS p, (2, 'b'))), s.b UNPIVOT EXCLUDE NULLS (v FOR n IN (p, q))", "s.a s.b"},
		{Databricks, "SELECT * FROM IDENTIFIER('s.' || 'a'), read_files('/x'), table_changes('s.a', 1), explode(array(1)), range(3)", " | the function IDENTIFIER the function read_files the function table_changes"},
		{Databricks, "SELECT * FROM f(TABLE(s.a) PARTITION BY k), g(n => TABLE s.b), s.c", "s.a s.b s.c | the function f the function g"},
		{Databricks, "SELECT * EXCEPT (k, x) FROM `s`.`a b` WHERE k = \"FROM s.no\" GROUP BY k, x WITH ROLLUP", `"s"."a b"`},
		{Databricks, "WITH x AS (SELECT * FROM s.a) SELECT * FROM x MINUS SELECT * FROM s.b", "s.a s.b"},
		{Databricks, "SELECT transform(m, e -> e + 1), m[(SELECT max(k) FROM s.b)] FROM s.a, LATERAL explode(m) t(e), s.c", "s.a s.b s.c"},
		{Databricks, "SELECT r'\\', '\\' FROM s.no', k FROM s.a -- , s.no \\\n, s.no\n, s.b", "s.a s.b"},

		{Snowflake, "SELECT f.value:name::string FROM db.s.a AT(TIMESTAMP => '2026-01-01'::timestamp) x, LATERAL FLATTEN(input => x.j, path => 'p') f, s.b", "db.s.a s.b"},
		{Snowflake, "SELECT * FROM s.a BEFORE(STATEMENT => 'x') JOIN s.b CHANGES(INFORMATION => DEFAULT) AT(OFFSET => -60) USING (k)", "s.a s.b"},
		{Snowflake, "SELECT * FROM TABLE(FLATTEN(input => parse_json('[]'))), TABLE(GENERATOR(ROWCOUNT => 3)), TABLE(SPLIT_TO_TABLE('a,b', ',')), TABLE(RESULT_SCAN(LAST_QUERY_ID()))", " | the function RESULT_SCAN"},
		{Snowflake, "SELECT * FROM TABLE(s.fn(1)), TABLE('s.a'), IDENTIFIER('s.b'), s.c", "s.c | the function s.fn the text 's.a' the function IDENTIFIER"},
		{Snowflake, "SELECT t.$1, t.$2 FROM @db.s.stage/x/y (FILE_FORMAT => 'f', PATTERN => '.*') t, @~/z, @%a, s.b", "s.b | @db.s.stage/x/y @~/z @%a"},
		{Snowflake, "SELECT k FROM s.a START WITH k = 1 CONNECT BY PRIOR k = x, PRIOR y = z", "s.a"},
		{Snowflake, "SELECT * FROM s.a SAMPLE (10), s.b TABLESAMPLE BERNOULLI (3), s.c SAMPLE ROW (5 ROWS), s.d", "s.a s.b s.c s.d"},
		{Snowflake, "SELECT * FROM s.a ASOF JOIN s.b MATCH_CONDITION (a.d >= b.d) ON a.k = b.k, s.c", "s.a s.b s.c"},
		{Snowflake, "SELECT * FROM s.a PIVOT (sum(x) FOR m IN (ANY ORDER BY m)), s.b PIVOT (sum(x) FOR m IN (SELECT m FROM s.c)) p", "s.a s.b s.c"},
		{Snowflake, "SELECT * EXCLUDE (k) FROM s.a QUALIFY row_number() OVER (PARTITION BY k, x ORDER BY y) = 1", "s.a"},
		{Snowflake, "SELECT * FROM db..a, \"Db\".\"S\".\"t.u\"", `db.PUBLIC.a "Db"."S"."t.u"`},
		{Snowflake, "WITH x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x WHERE n < 9), a AS (SELECT * FROM a) SELECT * FROM x, a // , s.no\n, s.b", "a s.b"},
		{Snowflake, "SELECT * FROM VALUES (1, 'a'), (2, 'b') v(p, q), (SELECT * FROM s.a) w, s.b", "s.a s.b"},
		{Snowflake, "SELECT $$FROM s.no$$, nth_value(x, 2) FROM LAST IGNORE NULLS OVER (ORDER BY k) FROM s.a MATCH_RECOGNIZE (ORDER BY k PATTERN (u v*) DEFINE u AS x > 1, v AS x < 1), s.b", "s.a s.b"},

		{PostgreSQL, "SELECT * FROM dblink('x', 'SELECT 1') AS d(a int), generate_series(1, 2), s.f(1) x, jsonb_each('{}'), s.a", "s.a | the function dblink the function s.f"},
		{DuckDB, "SELECT * FROM 'x.csv', \"d/*.parquet\", read_csv('y'), query_table('a'), 'a', range(3), s.b", `"a" s.b | the file 'x.csv' the file d/*.parquet the function read_csv the function query_table`},
	} {
		tables, unknown := parse(t, c.text, c.syn).Reads()
		var got, other []string
		for _, table := range tables {
			var parts []string
			for _, p := range []Ident{table.Database, table.Schema, table.Name} {
				if p.Name != "" {
					parts = append(parts, p.String())
				}
			}
			got = append(got, strings.Join(parts, "."))
		}
		slices.Sort(got)
		for _, u := range unknown {
			other = append(other, u.What)
			if u.Line != 1 && u.Column < 1 {
				t.Errorf("%q: %+v", c.text, u)
			}
		}
		names, others, _ := strings.Cut(c.want, " | ")
		want := strings.Fields(names)
		if names == `"s"."a b"` || strings.HasPrefix(names, `"s"."a b" `) {
			want = []string{names}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) || strings.Join(other, " ") != others {
			t.Errorf("%s: %q gives %q and %q, want %s", c.syn.Warehouse, c.text, got, other, c.want)
		}
	}
}
