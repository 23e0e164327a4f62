package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
	"github.com/etl-craft/etl-craft/warehouses/postgres"
)

// projectOf is an engine on pipeline files made of blocks: "PIPELINE < UPSTREAM, …" and below it, indented, lines of
// "task < dependency, …: ACTION target = SELECT". A file of sql_files/ is "= @name".
func projectOf(t testing.TB, d *warehouses.Dialect, text string) *Engine {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"pipelines", "sql_files"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]*strings.Builder{}
	var file *strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, "\n")
		head, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, ups, _ := strings.Cut(head, "<")
		name, ups = strings.TrimSpace(name), strings.TrimSpace(ups)
		if !strings.HasPrefix(strings.TrimLeft(line, "\t"), " ") {
			file = &strings.Builder{}
			files[name] = file
			fmt.Fprintf(file, "pipeline: %s\nname: %s\nrefresh_type: FULL\n", name, name)
			if ups != "" {
				file.WriteString("depends_on:\n")
				for _, up := range strings.Split(ups, ",") {
					fmt.Fprintf(file, "- {pipeline: %s, on: SUCCESS}\n", strings.TrimSpace(up))
				}
			}
			file.WriteString("tasks:\n")
			continue
		}
		action, source, _ := strings.Cut(rest, "=")
		words := strings.Fields(action)
		fmt.Fprintf(file, "- task: %s\n  depends_on: [%s]\n  params:\n    SQL_ACTION: %s\n    TARGET_OBJECT: '%s'\n", name, ups, words[0], words[1])
		switch source = strings.TrimSpace(source); {
		case strings.HasPrefix(source, "@"):
			fmt.Fprintf(file, "    SOURCE_SQL_FILE: %s\n", source[1:])
		case source != "":
			fmt.Fprintf(file, "    SOURCE_SQL: %q\n", source)
		}
		if strings.Contains(words[0], "MERGE") || words[0] == "DELETE_ROWS" {
			file.WriteString("    MERGE_KEY: k\n")
		}
		if strings.Contains(words[0], "MERGE") {
			file.WriteString("    MERGE_COMPARE_COLUMNS: x\n")
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, "pipelines", name+".yml"), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return New(Deps{Config: &config.Config{Dir: dir}, Dialect: d, Database: "dw", Handlers: []handlers.Handler{sql.Handler{}}})
}

// edges are lines of "from > to PIPELINE.task ACTION", with a star where the edge is part of a circle.
func edges(doc *LineageDocument) string {
	var lines []string
	for _, e := range doc.Edges {
		star := ""
		if e.InCycle {
			star = " *"
		}
		lines = append(lines, fmt.Sprintf("%s > %s %s.%s %s%s", e.From, e.To, e.Pipeline, e.Task, *e.Action, star))
	}
	return strings.Join(lines, "\n")
}

const shop = `
RAW
  land: CREATE_TABLE raw.orders = SELECT k, x FROM read_csv('orders.csv')
  days: CREATE_TABLE raw.days = VALUES (1, 2)
CORE < RAW
  setup: SETUP_TABLE core.orders = SELECT k, x FROM raw.orders
  load < setup: SCD1_MERGE core.orders = WITH raw AS (SELECT * FROM RAW.ORDERS) SELECT k, x FROM raw JOIN DW.Raw.Days USING (k)
  flag < load: DELETE_ROWS core.orders = SELECT k FROM raw.gone WHERE k IN (SELECT k FROM core.orders)
MART < CORE
  stage: CREATE_TABLE tmp.s = SELECT * FROM core.orders, other.main.t, nowhere
  build < stage: OVERWRITE_TABLE mart.sums = SELECT k, x FROM tmp.s
  drop < build: DROP_TABLE tmp.s
  broken: APPEND_TABLE mart.more = @missing.sql
`

func TestLineage(t *testing.T) {
	e := projectOf(t, duckdb.Dialect, shop)
	doc, err := e.Lineage(context.Background(), LineageRequest{Files: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = `raw.orders > core.orders CORE.setup SETUP_TABLE
RAW.ORDERS > core.orders CORE.load SCD1_MERGE
raw.gone > core.orders CORE.flag DELETE_ROWS
core.orders > core.orders CORE.flag DELETE_ROWS *
core.orders > tmp.s MART.stage CREATE_TABLE
other.main.t > tmp.s MART.stage CREATE_TABLE
main.nowhere > tmp.s MART.stage CREATE_TABLE
tmp.s > mart.sums MART.build OVERWRITE_TABLE`
	got := edges(doc)
	for _, line := range strings.Split(strings.ReplaceAll(want, "RAW.ORDERS", "raw.orders"), "\n") {
		if !strings.Contains(got+"\n", line+"\n") {
			t.Errorf("there is no edge %s", line)
		}
	}
	if n := len(doc.Edges); n != 9 { // and raw.days to core.orders
		t.Errorf("%d edges:\n%s", n, got)
	}
	var untraced []string
	for _, u := range doc.Untraced {
		untraced = append(untraced, fmt.Sprintf("%s.%s %s: %s", u.Pipeline, *u.Task, *u.Target, u.Reason))
	}
	slices.Sort(untraced)
	if got := strings.Join(untraced, "\n"); got != `MART.broken mart.more: SOURCE_SQL_FILE "missing.sql" does not exist in sql_files/
RAW.land raw.orders: SOURCE_SQL reads from the function read_csv at 1:18` {
		t.Errorf("untraced:\n%s", got)
	}
	i := slices.IndexFunc(doc.Tables, func(l LineageTable) bool { return l.Table == "tmp.s" })
	if s := doc.Tables[i]; len(s.WrittenBy) != 2 || s.WrittenBy[1].Task != "drop" || len(s.ReadBy) != 1 || s.Upstream != nil || s.Downstream != nil {
		t.Errorf("tmp.s: %+v", s)
	}
}

func TestLineageOfOneTable(t *testing.T) {
	e := projectOf(t, duckdb.Dialect, shop)
	for _, c := range []struct {
		req  LineageRequest
		want string // tables with their steps up and down, + where the lineage goes on
	}{
		{LineageRequest{Table: "tmp.s"}, "core.orders 1/- main.nowhere 1/- mart.sums -/1 other.main.t 1/- raw.days 2/- raw.gone 2/- raw.orders 2/- tmp.s 0/0"},
		{LineageRequest{Table: "DW.TMP.S", Upstream: true, Depth: 1}, "core.orders 1/-+ main.nowhere 1/- other.main.t 1/- tmp.s 0/-"},
		{LineageRequest{Table: `"tmp" . "s"`, Downstream: true}, "mart.sums -/1 tmp.s -/0"},
		{LineageRequest{Table: "raw.gone", Downstream: true, Depth: 2}, "core.orders -/1 raw.gone -/0 tmp.s -/2+"},
		{LineageRequest{Table: "core.orders", Upstream: true, Downstream: true, Depth: 1}, "core.orders 0/0 raw.days 1/- raw.gone 1/- raw.orders 1/- tmp.s -/1+"},
		{LineageRequest{Table: "nowhere"}, "main.nowhere 0/0 mart.sums -/2 tmp.s -/1"},
	} {
		c.req.Files = true
		doc, err := e.Lineage(context.Background(), c.req)
		if err != nil {
			t.Errorf("%+v: %v", c.req, err)
			continue
		}
		var got []string
		for _, table := range doc.Tables {
			text := table.Table + " " + stepsText(table.Upstream) + "/" + stepsText(table.Downstream)
			if table.More {
				text += "+"
			}
			got = append(got, strings.ToLower(text))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%+v:\n%s\nwant %s", c.req, g, c.want)
		}
	}
	for table, hint := range map[string]string{"tmp.t": "tmp.s", "sums": "mart.sums", "elsewhere.orders": "core.orders, raw.orders", "x.y": "lists all tables"} {
		_, err := e.Lineage(context.Background(), LineageRequest{Table: table, Files: true})
		wantCode(t, err, fault.TableNotFound, "no task reads or writes the table "+table, hint)
	}
	_, err := e.Lineage(context.Background(), LineageRequest{Table: "a.b.c.d", Files: true})
	wantCode(t, err, fault.Usage)
}

func stepsText(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// Tables that are made of each other, over pipelines, end the search.
func TestLineageInARing(t *testing.T) {
	e := projectOf(t, duckdb.Dialect, `
A
  a: OVERWRITE_TABLE s.a = SELECT * FROM s.c, s.start
B
  b: OVERWRITE_TABLE s.b = SELECT * FROM s.a
C
  c: OVERWRITE_TABLE s.c = SELECT * FROM s.b
  d: OVERWRITE_TABLE s.d = SELECT * FROM s.c
`)
	doc, err := e.Lineage(context.Background(), LineageRequest{Table: "s.b", Files: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = `s.c > s.a A.a OVERWRITE_TABLE *
s.start > s.a A.a OVERWRITE_TABLE
s.a > s.b B.b OVERWRITE_TABLE *
s.b > s.c C.c OVERWRITE_TABLE *
s.c > s.d C.d OVERWRITE_TABLE`
	if got := edges(doc); got != want {
		t.Errorf("edges:\n%s", got)
	}
}

// PostgreSQL keeps the case of quoted names, and which table a name without a schema is only its session knows.
func TestLineageNamesOnPostgreSQL(t *testing.T) {
	e := projectOf(t, postgres.Dialect, `
P
  a: CREATE_TABLE S.T = SELECT 1 AS k
  b: CREATE_TABLE s.u = SELECT * FROM "s".t, s."T", dw.s.T, S."a.b", s.a, t
`)
	doc, err := e.Lineage(context.Background(), LineageRequest{Files: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = `s.t > s.u P.b CREATE_TABLE
s."T" > s.u P.b CREATE_TABLE
s."a.b" > s.u P.b CREATE_TABLE
s.a > s.u P.b CREATE_TABLE`
	if got := edges(doc); got != want {
		t.Errorf("edges:\n%s", got)
	}
	if len(doc.Untraced) != 1 || doc.Untraced[0].Reason != `SOURCE_SQL names t without a schema at 1:51` {
		t.Errorf("untraced: %+v", doc.Untraced)
	}
	for _, name := range []string{`s."T"`, `S . "a.b"`} {
		if _, err := e.Lineage(context.Background(), LineageRequest{Table: name, Files: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrderOfReadersAndWriters(t *testing.T) {
	for _, c := range []struct {
		name, project string
		want          []string // beginnings of the warnings
	}{
		{"reader behind writer", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n b < a: CREATE_TABLE s.b = SELECT * FROM s.a\n", nil},
		{"reader far behind writer", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n b < a: CREATE_TABLE s.b = SELECT 1 AS k\n c < b: CREATE_TABLE s.c = SELECT * FROM s.a\n", nil},
		{"no order", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n b: CREATE_TABLE s.b = SELECT * FROM S.A\n",
			[]string{"READ_UNORDERED P.b: the SELECT reads s.a, which P.a writes, and no dependency says which comes first (depends_on: [a])"}},
		{"both behind a third", "P\n z: CREATE_TABLE s.z = SELECT 1 AS k\n a < z: CREATE_TABLE s.a = SELECT 1 AS k\n b < z: CREATE_TABLE s.b = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED P.b: the SELECT reads s.a"}},
		{"wrong way round", "P\n a < b: CREATE_TABLE s.a = SELECT 1 AS k\n b: CREATE_TABLE s.b = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED P.b: the SELECT reads s.a before P.a writes it: it finds the rows of an earlier run, and the first time no table"}},
		{"own target", "P\n a: SCD1_MERGE s.a = SELECT k, x FROM s.a\n", nil},
		{"nobody writes it", "P\n a: CREATE_TABLE s.a = SELECT * FROM s.source\n", nil},

		{"pipelines without order", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\nQ\n b: CREATE_TABLE s.b = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED Q.b: the SELECT reads s.a, which P.a writes, and no dependency says which comes first (depends_on: [P.a], or let the pipeline depend on P)"}},
		{"pipeline depends on pipeline", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\nQ < P\n b: CREATE_TABLE s.b = SELECT * FROM s.a\n", nil},
		{"through a pipeline between", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\nM < P\n m: CREATE_TABLE s.m = SELECT 1 AS k\nQ < M\n b: CREATE_TABLE s.b = SELECT * FROM s.a\n", nil},
		{"task depends on task", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\nQ\n z < P.a: CREATE_TABLE s.z = SELECT 1 AS k\n b < z: CREATE_TABLE s.b = SELECT * FROM s.a\n", nil},
		{"task depends on a pipeline's task", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\nM < P\n m: CREATE_TABLE s.m = SELECT 1 AS k\nQ\n b < M.m: CREATE_TABLE s.b = SELECT * FROM s.a\n", nil},
		{"task depends on another task", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n z: CREATE_TABLE s.z = SELECT 1 AS k\nQ\n b < P.z: CREATE_TABLE s.b = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED Q.b: the SELECT reads s.a, which P.a writes"}},

		{"two writers", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\n b: APPEND_TABLE S.A = SELECT 2 AS k\n",
			[]string{"WRITES_UNORDERED P.b: s.a is written here and by P.a, and no dependency says which comes first (let one depend on the other)"}},
		{"two writers in order", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\n b < a: DELETE_ROWS dw.s.a = SELECT 2 AS k\n", nil},
		{"three writers", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\n b < a: APPEND_TABLE s.a = SELECT 2 AS k\n c < a: APPEND_TABLE s.a = SELECT 2 AS k\n",
			[]string{"WRITES_UNORDERED P.c: s.a is written here and by P.b"}},
		{"writers of two pipelines", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\nQ\n b: APPEND_TABLE s.a = SELECT 2 AS k\n", []string{"WRITES_UNORDERED Q.b: s.a is written here and by P.a"}},
		{"reader of two", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\n b < a: APPEND_TABLE s.a = SELECT 2 AS k\n c < a: CREATE_TABLE s.c = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED P.c: the SELECT reads s.a, which P.b writes"}},
		{"reader between two", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\n c < a: CREATE_TABLE s.c = SELECT * FROM s.a\n b < c: APPEND_TABLE s.a = SELECT k FROM s.c\n", nil},

		{"dropped behind", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n b < a: CREATE_TABLE s.b = SELECT * FROM s.a\n c < b: DROP_TABLE s.a\n", nil},
		{"dropped meanwhile", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n b < a: CREATE_TABLE s.b = SELECT * FROM s.a\n c < a: DROP_TABLE s.a\n",
			[]string{"READ_UNORDERED P.b: the SELECT reads s.a, which P.c drops, and no dependency says which comes first (let P.c depend on b)"}},
		{"dropped and made meanwhile", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n c: DROP_TABLE s.a\n", []string{"WRITES_UNORDERED P.c: s.a is written here and by P.a"}},

		{"set up first", "P\n a: SETUP_TABLE s.a = SELECT 1 AS k\n b < a: CREATE_TABLE s.b = SELECT * FROM s.a\n c < b: APPEND_TABLE s.a = SELECT k FROM s.b\n", nil},
		{"set up meanwhile", "P\n a: SETUP_TABLE s.a = SELECT 1 AS k\n b: APPEND_TABLE s.a = SELECT 1 AS k\n", []string{"WRITES_UNORDERED P.b: s.a is written here and by P.a"}},
		{"set up by each pipeline", "P\n a: SETUP_TABLE s.a = SELECT 1 AS k\n b < a: APPEND_TABLE s.a = SELECT 1 AS k\nQ < P\n a: SETUP_TABLE s.a = SELECT 1 AS k\n b < a: APPEND_TABLE s.a = SELECT 1 AS k\n", nil},
		{"set up twice", "P\n a: SETUP_TABLE s.a = SELECT 1 AS k\n c < a: APPEND_TABLE s.a = SELECT 1 AS k\nQ\n b: SETUP_TABLE s.a = SELECT 1 AS k\n c < b, P.c: APPEND_TABLE s.a = SELECT 1 AS k\n", nil},
		{"columns of a table that changes", "P\n s: SETUP_TABLE s.a = SELECT 1 AS k\n a < s: APPEND_TABLE s.a = SELECT 1 AS k\n b < s: SETUP_TABLE s.b = SELECT * FROM s.a\n c < b, a: APPEND_TABLE s.b = SELECT * FROM s.a\n", nil},
		{"columns of a table that is made", "P\n a: CREATE_TABLE s.a = SELECT 1 AS k\n b: SETUP_TABLE s.b = SELECT * FROM s.a\n c < b, a: APPEND_TABLE s.b = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED P.b: the SELECT reads s.a, which P.a writes"}},

		{"many writers", "P\n a: APPEND_TABLE s.a = SELECT 1 AS k\n b < a: APPEND_TABLE s.a = SELECT 1 AS k\n c < b: APPEND_TABLE s.a = SELECT 1 AS k\n d < c: APPEND_TABLE s.a = SELECT 1 AS k\n e < d: APPEND_TABLE s.a = SELECT 1 AS k\nQ\n r: CREATE_TABLE s.r = SELECT * FROM s.a\n",
			[]string{"READ_UNORDERED Q.r: the SELECT reads s.a, which P.a, P.b, P.c and 2 more write"}},
		{"a circle of dependencies", "P\n a < b: CREATE_TABLE s.a = SELECT 1 AS k\n b < a: CREATE_TABLE s.b = SELECT * FROM s.a\n c < b: CREATE_TABLE s.c = SELECT * FROM s.a\n", nil},
	} {
		e := projectOf(t, duckdb.Dialect, c.project)
		doc, err := e.Validate(context.Background(), ValidateRequest{Files: true})
		if doc == nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, p := range doc.Problems {
			if p.Code == fault.ReadUnordered || p.Code == fault.WritesUnordered {
				if p.Level != warn || p.Line == 0 {
					t.Errorf("%s: %+v", c.name, p)
				}
				got = append(got, fmt.Sprintf("%s %s.%s: %s (%s)", p.Code, p.Pipeline, p.Task, p.Message, p.Hint))
			} else if c.name != "a circle of dependencies" && p.Level != warn {
				t.Errorf("%s: %+v", c.name, p)
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// wide is a project of n pipelines with 20 tasks each, in which tasks read tables of their own and of earlier pipelines.
func wide(n int) string {
	var b strings.Builder
	for p := range n {
		fmt.Fprintf(&b, "P%d", p)
		if p > 0 {
			fmt.Fprintf(&b, " < P%d", p-1)
		}
		b.WriteString("\n")
		for i := range 20 {
			fmt.Fprintf(&b, " t%d", i)
			if i > 0 {
				fmt.Fprintf(&b, " < t%d", i-1)
			}
			fmt.Fprintf(&b, ": CREATE_TABLE s%d.t%d = WITH a AS (SELECT k, max(x) AS x FROM s%d.t%d GROUP BY k) SELECT k, x FROM a LEFT JOIN s%d.t%d b USING (k) WHERE EXISTS (SELECT 1 FROM src.t%d c WHERE c.k = a.k)\n",
				p, i, p, max(i-1, 0), max(p-1, 0), i, i)
		}
	}
	return b.String()
}

// BenchmarkValidate is 1,000 pipelines of 20 tasks.
func BenchmarkValidate(b *testing.B) {
	e := projectOf(b, duckdb.Dialect, wide(1000))
	for b.Loop() {
		doc, err := e.Validate(context.Background(), ValidateRequest{Files: true})
		if err != nil || doc.Warnings > 0 {
			b.Fatalf("%v %+v", err, doc)
		}
	}
}
