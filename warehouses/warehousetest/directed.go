package warehousetest

import (
	"fmt"
	"strings"

	"github.com/etl-craft/etl-craft/warehouses"
)

type directedTest struct {
	name string
	test func(*bench)
}

var directed = []directedTest{
	{"evolution adds columns with their complete types", evolution},
	{"evolution refuses another type", typeChange},
	{"shapes that do not fit", shapeRefusals},
	{"columns the engine cannot write", columnRefusals},
	{"compare columns that cannot be hashed", hashRefusals},
	{"a view is no target", viewTarget},
	{"CREATE_TABLE replaces a table that is not etl-craft's", replaceOthers},
	{"another compare list", compareList},
	{"keys of which the target could take two for one", keyTypes},
	{"a retried append replaces its own rows only", appendRetry},
	{"an append that is told of a conflict after its commit", committedConflict},
	{"a SELECT that fails keeps the old rows", failingSelect},
	{"a SELECT may read its own target", ownTarget},
	{"reserved words as column names", reservedWords},
	{"names in other cases", mixedCase},
	{"200 columns", wideTable},
	{"empty SELECTs", emptySelects},
	{"two active versions", twoActiveVersions},
	{"which row of a repeated key is kept", dedupe},
	{"a deleted row comes back whole", revive},
	{"NULL keys and NULL values", nulls},
	{"values in the target's types", storedTypes},
	{"tokens and ways to write a SELECT", selectForms},
	{"actions without their target", missingTarget},
	{"witnesses of lost attempts", lostAttempts},
	{"rows without hash or flag", unhashedRows},
	{"schemas that do not exist", missingSchema},
	{"columns with names that statements use", aliasNames},
	{"types that cannot be hashed pass through", otherTypes},
	{"a target written through another Engine DB", foreignTarget},
	{"an empty target takes new compare columns", emptyTarget},
	{"dropping needs this run's creation", dropRefusals},
}

var (
	idColumn   = Column{"id", "int", "INTEGER"}
	nameColumn = Column{"name", "text", "VARCHAR"}
	noteColumn = Column{"note", "text", "VARCHAR"}
	three      = []Column{idColumn, nameColumn, noteColumn}
)

// row makes a row of three: id, name, note; "NULL" is NULL.
func row(values ...string) Row {
	r := Row{}
	for i, v := range values {
		if v != "NULL" {
			r[three[i].Name] = text(v)
		}
	}
	return r
}

// merge is a merge of three by id, comparing name.
func merge(action string, rows ...Row) Request {
	return Request{Action: action, Keys: []string{"id"}, Compare: []string{"name"}, Columns: three, Rows: rows}
}

func (b *bench) setUp(action string, rows ...Row) {
	b.Helper()
	q := Request{Action: "SETUP_TABLE", SetupFor: action, Columns: three}
	if strings.HasSuffix(action, "MERGE") {
		q.Compare = []string{"name"}
	}
	b.must(q)
	q = merge(action, rows...)
	if !strings.HasSuffix(action, "MERGE") {
		q.Keys, q.Compare = nil, nil
	}
	b.must(q)
}

// fresh is a bench with a schema of its own beside b's.
func (b *bench) fresh() *bench { return newBench(b.T, b.env, b.backend) }

func evolution(b *bench) {
	added := []Column{{"amount", "decimal(12,2)", "DECIMAL(12,2)"}, {"at", "timestamp", "TIMESTAMP"}}
	for _, action := range []string{"OVERWRITE_TABLE", "SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("1", "a", "x"), row("2", "b", "y"), row("3", "c", "z"))
		q := Request{Action: action, Evolve: true, Columns: append(append([]Column{}, added...), three...)}
		if action != "OVERWRITE_TABLE" {
			q.Keys, q.Compare = []string{"id"}, []string{"name"}
		}
		for _, r := range []Row{row("1", "a", "x"), row("2", "changed", "y"), row("4", "new", "w")} {
			r["amount"], r["at"] = text("12.30"), text("2026-01-02T03:04:05.000006")
			q.Rows = append(q.Rows, r)
		}
		b.must(q)
		b.must(q)
		columns, err := b.session.Describe(b.Context(), "SELECT amount FROM "+warehouses.SQL(b.target()))
		if err != nil {
			b.Fatal(err)
		}
		if t := columns[0].Type; t.Precision != 12 || t.Scale != 2 {
			b.Errorf("the added column has type %s", t.SQL)
		}
		q.Evolve, q.Columns = false, three
		b.refused("TARGET_SHAPE", q, nil)
	}
}

func typeChange(b *bench) {
	for _, action := range []string{"OVERWRITE_TABLE", "SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("1", "a", "x"))
		q := merge(action, row("1", "b", "5"))
		if action == "OVERWRITE_TABLE" {
			q.Keys, q.Compare = nil, nil
		}
		q.Columns, q.Evolve = []Column{idColumn, nameColumn, {"note", "int", "INTEGER"}}, true
		b.refused("TYPE_CHANGED", q, nil)
		q.Evolve = false
		b.must(q)
	}
}

func shapeRefusals(b *bench) {
	for _, action := range []string{"OVERWRITE_TABLE", "SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("1", "a", "x"))
		q := merge(action, row("1", "b", "5"))
		if action == "OVERWRITE_TABLE" {
			q.Keys, q.Compare = nil, nil
		}
		q.Columns = append(append([]Column{}, three...), Column{"more", "int", "INTEGER"})
		b.refused("NEW_COLUMNS", q, nil)
		q.Columns = three[:2]
		b.refused("TARGET_SHAPE", q, nil)
		q.Evolve = true
		b.refused("TARGET_SHAPE", q, nil)
	}
	b.setUp("APPEND_TABLE", row("1", "a", "x"))
	b.refused("NEW_COLUMNS", Request{Action: "APPEND_TABLE", Columns: append(append([]Column{}, three...), Column{"more", "int", "INTEGER"})}, nil)
	b.refused("TARGET_SHAPE", merge("SCD1_MERGE"), nil)
	b.refused("TARGET_SHAPE", merge("SCD2_MERGE"), nil)
	b.refused("TARGET_SHAPE", Request{Action: "OVERWRITE_TABLE", Columns: three}, nil)
	b.refused("TARGET_SHAPE", Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1")}}, nil)
	b.refused("COLUMN_MISSING", Request{Action: "DELETE_ROWS", Hard: true, Keys: []string{"other"}, Columns: []Column{{"other", "int", "INTEGER"}}}, nil)
	b.must(Request{Action: "DELETE_ROWS", Hard: true, Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1")}})
}

func columnRefusals(b *bench) {
	b.setUp("SCD1_MERGE", row("1", "a", "x"))
	source := func(s string) map[string]string { return map[string]string{"SOURCE_SQL": s} }
	q := merge("SCD1_MERGE")
	b.refused("COLUMN_RESERVED", q, source("SELECT * FROM "+b.target()))
	b.refused("COLUMN_RESERVED", q, source("SELECT 1 AS id, 'a' AS name, 'b' AS note, 5 AS Row_Id"))
	b.refused("COLUMN_NAME", q, source("SELECT 1 AS id, 'a' AS name, 'b' AS note, 5 AS "+string(b.env.Dialect.Ident("two words"))))
	b.refused("COLUMN_DUPLICATE", q, source("SELECT s.*, s.id FROM (SELECT 1 AS id, 'a' AS name, 'b' AS note) AS s"))
	b.refused("COLUMN_MISSING", q, source("SELECT 1 AS id, 'b' AS note"))
	b.refused("SELECT_NOT_READ_ONLY", q, source("DELETE FROM "+b.target()))
	b.refused("SELECT_NOT_READ_ONLY", q, source("SELECT 1 AS id; SELECT 2 AS id"))
}

func hashRefusals(b *bench) {
	for _, typ := range []string{"DOUBLE PRECISION", "REAL", "TIME"} {
		b := b.fresh()
		columns := []Column{idColumn, {"v", "text", typ}}
		b.must(Request{Action: "SETUP_TABLE", SetupFor: "SCD1_MERGE", Columns: columns, Compare: []string{"v"}})
		b.refused("HASH_TYPE", Request{Action: "SCD1_MERGE", Keys: []string{"id"}, Compare: []string{"v"}, Columns: columns, Rows: []Row{{"id": text("1")}}}, nil)
	}
	columns := []Column{idColumn, {"v", "date", "DATE"}}
	q := Request{Action: "SCD1_MERGE", Keys: []string{"id"}, Compare: []string{"v"}, Columns: columns, Rows: []Row{{"id": text("1"), "v": text("9999-12-31")}}}
	b.must(Request{Action: "SETUP_TABLE", SetupFor: "SCD1_MERGE", Columns: columns, Compare: []string{"v"}})
	b.must(q)
	for _, v := range []string{"CAST(CAST('9999-12-31' AS DATE) + INTERVAL '1' DAY AS DATE)", "CAST(CAST('0001-01-01' AS DATE) - INTERVAL '1' DAY AS DATE)"} {
		b.refused("HASH_RANGE", q, map[string]string{"SOURCE_SQL": "SELECT 1 AS id, " + v + " AS v"})
	}
}

func viewTarget(b *bench) {
	if b.backend.NoViews {
		b.Skip("there are no views")
	}
	b.exec("CREATE VIEW " + b.target() + " AS SELECT 1 AS id, 'a' AS name, 'b' AS note")
	for _, q := range []Request{{Action: "CREATE_TABLE", Columns: three}, {Action: "SETUP_TABLE", SetupFor: "APPEND_TABLE", Columns: three},
		{Action: "OVERWRITE_TABLE", Columns: three}, {Action: "APPEND_TABLE", Columns: three}, merge("SCD1_MERGE"), merge("SCD2_MERGE"), {Action: "DROP_TABLE"},
		{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1]}} {
		q = b.request(q)
		b.expect(b.attempt(q, b.params(q), nil, false), Counts{}, Counts{}, "TARGET_NOT_A_TABLE")
	}
}

func compareList(b *bench) {
	b.setUp("SCD2_MERGE", row("1", "a", "x"))
	q := merge("SCD2_MERGE", row("1", "a", "y"))
	q.Compare = []string{"name", "note"}
	b.refused("HASH_COLUMNS", q, nil)
	q.Compare = []string{"note"}
	b.refused("HASH_COLUMNS", q, nil)
	b.must(Request{Action: "DELETE_ROWS", Hard: true, Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1")}})
	q.Compare = []string{"name", "note"}
	b.must(q)
	q.Compare = []string{"note", "name"}
	b.refused("HASH_COLUMNS", q, nil)
	b.oracle.forget()
	b.record.HashVersion, b.record.CompareColumns = 0, ""
	q.Compare = []string{"name", "note"}
	b.refused("HASH_VERSION", q, nil)
}

func keyTypes(b *bench) {
	all := []Request{{Action: "SCD1_MERGE"}, {Action: "SCD2_MERGE"}, {Action: "DELETE_ROWS"}, {Action: "DELETE_ROWS", Hard: true}}
	for _, key := range []struct{ stored, narrow, wide Column }{
		{idColumn, Column{"id", "decimal(3,1)", "DECIMAL(3,1)"}, Column{"id", "int", "SMALLINT"}},
		{idColumn, Column{"id", "text", "VARCHAR"}, Column{"id", "decimal(3,0)", "DECIMAL(3,0)"}},
		{Column{"id", "date", "DATE"}, Column{"id", "timestamp", "TIMESTAMP"}, Column{"id", "date", "DATE"}},
		{Column{"id", "decimal(9,2)", "DECIMAL(9,2)"}, Column{"id", "decimal(9,3)", "DECIMAL(9,3)"}, Column{"id", "int", "INTEGER"}},
		{Column{"id", "text", "VARCHAR"}, Column{}, Column{"id", "int", "INTEGER"}},
	} {
		for _, q := range all {
			b := b.fresh()
			setup := q.Action
			if setup == "DELETE_ROWS" {
				setup = "SCD1_MERGE"
			}
			b.must(Request{Action: "SETUP_TABLE", SetupFor: setup, Columns: []Column{key.stored, nameColumn}, Compare: []string{"name"}})
			q.Keys, q.Columns = []string{"id"}, []Column{key.narrow, nameColumn}
			if q.Action != "DELETE_ROWS" {
				q.Compare = []string{"name"}
			}
			if key.narrow.Name != "" {
				b.refused("KEY_TYPE", q, nil)
			}
			q.Columns = []Column{key.wide, nameColumn}
			b.must(q)
		}
	}
}

func appendRetry(b *bench) {
	b.setUp("APPEND_TABLE", row("1", "a", "x"), row("1", "a", "x"))
	q := b.request(Request{Action: "APPEND_TABLE", Columns: three, Rows: []Row{row("2", "b", "x"), row("3", "c", "x")}})
	var earlier []*attempted
	for n := range 4 {
		want, _ := b.oracle.Apply(q)
		got := b.attempt(q, b.params(q), earlier, false)
		b.expect(got, want, want, "")
		b.look()
		earlier = append(earlier, got.attempt)
		q = b.retry(q)
		q.Rows = append(q.Rows, row(fmt.Sprint(10+n), "again", "NULL"))
	}
	if n := len(b.oracle.Table.Rows); n != 7 {
		b.Fatalf("%d rows", n)
	}
}

func failingSelect(b *bench) {
	only := []Column{idColumn}
	more := map[string]string{"SOURCE_SQL": b.backend.Failing}
	b.must(Request{Action: "CREATE_TABLE", Columns: only, Rows: []Row{row("1"), row("2")}})
	if !b.backend.NoViews {
		b.exec("CREATE VIEW " + b.schema + ".v AS SELECT 1 AS id")
	}
	b.refused("STATEMENT_FAILED", Request{Action: "CREATE_TABLE", Columns: only}, more)
	b.refused("STATEMENT_FAILED", Request{Action: "APPEND_TABLE", Columns: only}, more)
	b.must(Request{Action: "APPEND_TABLE", Columns: only, Rows: []Row{row("3")}})
	for _, action := range []string{"OVERWRITE_TABLE", "SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.must(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: only})
		q := Request{Action: action, Columns: only, Rows: []Row{row("1"), row("2")}}
		if action != "OVERWRITE_TABLE" {
			q.Keys, q.Compare = []string{"id"}, []string{"id"}
		}
		b.must(q)
		b.refused("STATEMENT_FAILED", q, more)
		b.must(q)
	}
}

func replaceOthers(b *bench) {
	b.exec("CREATE TABLE " + b.target() + " AS SELECT 7 AS id, 8 AS other")
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x"), row("2", "b", "NULL")}})
}

func ownTarget(b *bench) {
	own := map[string]string{"SOURCE_SQL": "SELECT id, name, note FROM " + b.target() + " UNION ALL SELECT 9, 'nine', NULL"}
	first := []Row{row("1", "a", "x"), row("2", "b", "NULL")}
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: first})
	b.applyWith(Request{Action: "CREATE_TABLE", Columns: three, Rows: append(first, row("9", "nine", "NULL"))}, own)
	b.applyWith(Request{Action: "APPEND_TABLE", Columns: three, Rows: append(first, row("9", "nine", "NULL"), row("9", "nine", "NULL"))}, own)

	o := b.fresh()
	own["SOURCE_SQL"] = "SELECT id, name, note FROM " + o.target() + " UNION ALL SELECT 9, 'nine', NULL"
	o.setUp("OVERWRITE_TABLE", first...)
	o.applyWith(Request{Action: "OVERWRITE_TABLE", Columns: three, Rows: append(first, row("9", "nine", "NULL"))}, own)
}

func reservedWords(b *bench) {
	var columns []Column
	r, changed := Row{}, Row{}
	for i, name := range []string{"select", "order", "group", "table", "user", "end", "default", "values", "s", "t", "c", "update", "rank"} {
		columns = append(columns, Column{name, "text", "VARCHAR"})
		r[name], changed[name] = text(fmt.Sprint(i)), text(fmt.Sprint(i))
	}
	changed["group"] = nil
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		q := Request{Action: action, Keys: []string{"select", "order"}, Compare: []string{"group", "table", "user", "s", "t", "c"}, Columns: columns, Rows: []Row{r},
			Order: []OrderTerm{{"end", true, true}, {"update", false, false}, {"group", false, false}}}
		b.must(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: columns, Compare: q.Compare})
		b.must(q)
		q.Rows = []Row{changed}
		b.must(q)
		q.Rows, q.Preserve = []Row{r, changed}, action == "SCD1_MERGE"
		b.must(q)
		b.must(Request{Action: "DELETE_ROWS", Keys: q.Keys, Columns: columns, Rows: []Row{r}})
		b.must(Request{Action: "DELETE_ROWS", Keys: q.Keys, Columns: columns, Rows: []Row{r}, Hard: true})
	}
	b.must(Request{Action: "CREATE_TABLE", Columns: columns, Rows: []Row{r}})
	b.must(Request{Action: "APPEND_TABLE", Columns: columns, Rows: []Row{changed}})
}

func mixedCase(b *bench) {
	targets := func(b *bench) []string {
		return []string{strings.ToUpper(b.schema) + ".T", strings.ToUpper(b.schema) + ".t"}
	}
	if b.backend.OneCase {
		targets = func(b *bench) []string { return []string{b.target(), b.target()} }
	}
	for _, preserve := range []bool{false, true} {
		b := b.fresh()
		b.must(Request{Action: "SETUP_TABLE", SetupFor: "SCD1_MERGE", Columns: three, Compare: []string{"id", "name"}})
		q := merge("SCD1_MERGE")
		q.Compare, q.Preserve = []string{"id", "name"}, preserve
		for i, rows := range [][]Row{{row("1", "a", "x")}, {row("1", "b", "y"), row("2", "c", "z")}, {row("1", "NULL", "w")}} {
			q.Rows = rows
			values := []string{}
			for _, r := range rows {
				values = append(values, "SELECT "+b.literal(idColumn, r["id"])+" AS Id, "+b.literal(nameColumn, r["name"])+" AS NAME, "+b.literal(noteColumn, r["note"])+" AS nOTE")
			}
			b.applyWith(q, map[string]string{"SOURCE_SQL": strings.Join(values, " UNION ALL "), "MERGE_KEY": "ID", "MERGE_COMPARE_COLUMNS": "iD|Name",
				"MERGE_DEDUPE_ORDER": "Note desc", "TARGET_OBJECT": targets(b)[i%2]})
		}
		b.applyWith(Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1")}}, map[string]string{"MERGE_KEY": "ID", "SOURCE_SQL": "SELECT 1 AS iD"})
	}
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
	b.applyWith(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}}, map[string]string{"TARGET_OBJECT": targets(b)[0]})
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
}

func wideTable(b *bench) {
	samples := b.backend.samples()
	columns := []Column{idColumn}
	var compare []string
	for i := range 200 {
		sm := samples[i%len(samples)]
		columns = append(columns, Column{fmt.Sprintf("c%d", i), sm.kind, sm.typ})
		compare = append(compare, fmt.Sprintf("c%d", i))
	}
	wide := func(key string, n int) Row {
		r := Row{"id": text(key)}
		for i := range 200 {
			values := samples[i%len(samples)].values
			r[fmt.Sprintf("c%d", i)] = text(values[(i+n)%len(values)])
		}
		return r
	}
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.must(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: columns, Compare: compare})
		q := Request{Action: action, Keys: []string{"id"}, Compare: compare, Columns: columns, Rows: []Row{wide("1", 0), wide("2", 1)}}
		b.must(q)
		last := wide("2", 1)
		last["c199"] = nil
		q.Rows = []Row{wide("1", 0), last, wide("3", 2)}
		b.must(q)
		q.Preserve = action == "SCD1_MERGE"
		b.must(q)
	}
}

func emptySelects(b *bench) {
	b.must(Request{Action: "CREATE_TABLE", Columns: three})
	b.must(Request{Action: "APPEND_TABLE", Columns: three})
	b.must(Request{Action: "DELETE_ROWS", Hard: true, Keys: []string{"id"}, Columns: three[:1]})
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
	b.must(Request{Action: "CREATE_TABLE", Columns: three})
	for _, action := range []string{"OVERWRITE_TABLE", "SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action)
		q := merge(action, row("1", "a", "x"))
		if action == "OVERWRITE_TABLE" {
			q.Keys, q.Compare = nil, nil
		}
		b.must(q)
		q.Rows = nil
		b.must(q)
		if action != "OVERWRITE_TABLE" {
			b.must(Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1]})
		}
	}
}
