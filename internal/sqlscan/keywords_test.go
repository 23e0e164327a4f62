package sqlscan

import (
	"iter"
	"strings"
)

var keywords = []string{"insert", "update", "delete", "merge", "into", "for", "for update", "for share", "with",
	"returning", "select", "table", "values", "truncate", "drop", "copy", "call", "lock", "set", "as", "recursive",
	"materialized", "search", "cycle", "share", "key", "no", "name", "union", "all", "insert into t", "delete from t",
	"update t set a = 1", "x", "(select 1)", "\"into\"", "'into'", "$$into$$", "/* into */ x", "1 into z", "a; select 1",
	"-- x\n into z", "select 1", "e'\\' into z --'", "z, y", "e'a'\n'\\'; delete from t --'", "a$$;delete from t$$"}

var places = []string{"SELECT %", "SELECT % FROM t", "SELECT 1 AS %", "SELECT 1 AS % FROM t", "SELECT 1 %", "SELECT 1 % FROM t",
	"SELECT t.% FROM t", "SELECT a % FROM t", "SELECT (%)", "SELECT (%) FROM t", "SELECT f(%)", "SELECT f(a, %) FROM t",
	"SELECT 1 FROM %", "SELECT 1 FROM t %", "SELECT 1 FROM t AS %", "SELECT 1 FROM t, %", "SELECT 1 FROM t WHERE a = %",
	"SELECT 1 FROM t WHERE a = 1 %", "SELECT 1 FROM t ORDER BY % ", "SELECT 1 FROM t ORDER BY a %", "SELECT 1 FROM t LIMIT 1 %",
	"SELECT 1 FROM (%) x", "SELECT 1 FROM (SELECT 1 %) x", "SELECT 1 FROM (SELECT 1) %", "SELECT 1 UNION %",
	"SELECT 1 UNION SELECT 1 %", "WITH % AS (SELECT 1) SELECT 1", "WITH x AS (%) SELECT 1", "WITH x AS (SELECT 1) %",
	"WITH x AS (SELECT 1), % AS (SELECT 2) SELECT 1", "WITH x(%) AS (SELECT 1) SELECT 1", "WITH x AS % (SELECT 1) SELECT 1",
	"WITH % (SELECT 1) SELECT 1", "WITH x AS (SELECT 1 %) SELECT 1", "WITH x AS ((%)) SELECT 1", "(%)", "(SELECT 1) %", "TABLE %",
	"TABLE t %", "VALUES (%)", "VALUES (1) %", "%", "SELECT 1; %", "SELECT CASE WHEN % THEN 1 END FROM t", "SELECT a[%] FROM t",
	"SELECT array(%)", "SELECT exists(%)", "SELECT a FROM t WHERE a IN (%)", "SELECT substring(b FROM a FOR %) FROM t",
	"SELECT substring(b %) FROM t", "SELECT cast(a AS %) FROM t", "SELECT a::% FROM t", "SELECT 1 AS as %", "SELECT t.as % FROM t",
	"SELECT sum(a) OVER % FROM t WINDOW w AS ()", "SELECT sum(a) OVER (%) FROM t", "SELECT 1 FROM t JOIN % ON true",
	"SELECT 1 FROM t CROSS JOIN LATERAL (%) x", "SELECT 1 FROM f() AS (% int)",
	"WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x) SEARCH DEPTH FIRST BY % SET o SELECT 1",
	"WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x) SEARCH DEPTH FIRST BY n SET % SELECT 1",
	"WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x) CYCLE n SET % USING p SELECT 1",
	"WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x) CYCLE n SET c USING % SELECT 1",
	"WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x) CYCLE n SET c USING p %"}

// keywordTexts is every keyword in every place.
func keywordTexts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range places {
			for _, k := range keywords {
				if !yield(strings.Replace(p, "%", k, 1)) {
					return
				}
			}
		}
	}
}
