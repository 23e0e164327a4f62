package warehousetest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

func twoActiveVersions(b *bench) {
	again := func(b *bench, name, flag string) {
		r := maps.Clone(b.oracle.Table.Rows[0])
		r["name"], r["delete_flag"] = text(name), text(flag)
		r["hash_key"] = text(digest([]*string{text(name)}))
		b.insert(r)
	}
	for _, c := range []struct{ first, second, flag, merged string }{
		{"a", "b", "N", "a"}, // one equals: the other is closed, none opened
		{"a", "a", "N", "a"}, // both equal: unchanged
		{"a", "b", "N", "c"}, // none equals: both closed, one opened
		{"a", "a", "Y", "a"}, // an equal one that is flagged does not count
	} {
		for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
			b := b.fresh()
			b.setUp(action, row("1", c.first, "x"))
			again(b, c.second, c.flag)
			b.must(merge(action, row("1", c.merged, "y")))
			b.must(merge(action, row("1", c.merged, "z")))
			b.must(Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1"), row("1")}})
		}
	}
}

func dedupe(b *bench) {
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("7", "old", "x"))
		q := merge(action, row("1", "a", "5"), row("1", "Z", "5"), row("1", "é", "5"), row("1", "NULL", "5"))
		b.refused("DUPLICATE_MERGE_KEYS", q, nil)
		for _, o := range []OrderTerm{{"name", false, false}, {"name", true, false}, {"name", false, true}, {"name", true, true}} {
			q.Order = []OrderTerm{o}
			b.must(q)
		}
		q.Rows = append(q.Rows, row("1", "Z", "6")) // Z stands twice and comes first
		q.Order = []OrderTerm{{"name", false, false}}
		b.refused("DEDUPE_TIE", q, nil)
		q.Order = []OrderTerm{{"name", true, false}} // the tie is not for first place
		b.must(q)
		q.Order = []OrderTerm{{"name", false, false}, {"note", true, false}}
		b.must(q)
		q.Rows, q.Order = []Row{row("1", "a", "NULL"), row("1", "a", "")}, []OrderTerm{{"name", false, false}} // NULL and '' differ
		b.refused("DEDUPE_TIE", q, nil)
		q.Rows = []Row{row("1", "b", "NULL"), row("1", "b", "NULL"), row("2", "b", "x")}
		b.must(q)
	}
}

func revive(b *bench) {
	drop := Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1"), row("5")}}
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("1", "a", "x"), row("2", "b", "x"))
		b.must(drop)
		b.must(drop)
		b.must(merge(action, row("1", "a", "other note")))
		b.must(drop)
		b.must(merge(action, row("1", "changed", "x")))
		b.must(merge(action, row("1", "changed", "not compared")))
		q := merge(action, row("1", "NULL", "NULL"), row("2", "NULL", "new"))
		q.Preserve = action == "SCD1_MERGE"
		b.must(drop)
		b.must(q)
	}
}

func nulls(b *bench) {
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("1", "NULL", "x"), row("2", "", "x"))
		b.must(merge(action, row("1", "NULL", "x"), row("2", "", "x")))
		b.must(merge(action, row("1", "", "x"), row("2", "NULL", "x")))
		b.refused("NULL_MERGE_KEYS", merge(action, row("NULL", "", "x"), row("2", "c", "x")), nil)
		b.refused("NULL_MERGE_KEYS", Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("NULL"), row("1")}}, nil)
		b.refused("NULL_MERGE_KEYS", Request{Action: "DELETE_ROWS", Hard: true, Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("NULL"), row("1")}}, nil)
	}
}

func storedTypes(b *bench) {
	stored := []Column{{"k", "decimal(6,2)", "DECIMAL(6,2)"}, {"v", "decimal(6,2)", "DECIMAL(6,2)"}}
	wide := []Column{{"k", "decimal(4,2)", "DECIMAL(4,2)"}, {"v", "decimal(8,4)", "DECIMAL(8,4)"}}
	b.must(Request{Action: "SETUP_TABLE", SetupFor: "SCD1_MERGE", Columns: stored, Compare: []string{"v"}})
	q := Request{Action: "SCD1_MERGE", Keys: []string{"k"}, Compare: []string{"v"}, Columns: stored, Rows: []Row{{"k": text("1.10"), "v": text("2.50")}}}
	b.must(q)
	q.Columns, q.Rows = wide, []Row{{"k": text("1.10"), "v": text("2.4951")}}
	b.must(q) // rounds to what is there
	q.Rows = []Row{{"k": text("1.10"), "v": text("2.5050")}}
	b.must(q)
	q.Rows = []Row{{"k": text("9.99"), "v": text("9999.9999")}}
	b.refused("STATEMENT_FAILED", q, nil)
}

func selectForms(b *bench) {
	tokens := Request{Action: "CREATE_TABLE", Columns: []Column{{"p", "int", "BIGINT"}, {"r", "int", "BIGINT"}, {"t", "int", "BIGINT"}, {"d", "date", "DATE"}, {"l", "text", "VARCHAR"}}}
	tokens.Rows = []Row{{"p": id(pipelineID), "r": id(runID), "t": id(b.nextTaskRun + 1), "d": text("2026-09-01"), "l": text("$$run_date ; --")}}
	b.applyWith(tokens, map[string]string{"PIPELINE_ID_SUBSTITUTION": "true", "PIPELINE_RUN_ID_SUBSTITUTION": "true", "TASK_RUN_ID_SUBSTITUTION": "true", "RUN_DATE_SUBSTITUTION": "true",
		"SOURCE_SQL": "/* $$none */ SELECT CAST($$pipeline_id AS BIGINT) AS p, CAST($$pipeline_run_id AS BIGINT) AS r, CAST($$task_run_id AS BIGINT) AS t, $$run_date AS d, '$$run_date ; --' AS l; -- end"})

	rows := []Row{row("1", "a", "x"), row("2", "b", "NULL")}
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: rows})
	b.exec("CREATE TABLE " + b.schema + ".source AS SELECT id, name, note, pipeline_run_id FROM " + b.target())
	b.exec("CREATE TABLE " + b.schema + ".three AS SELECT id, name, note FROM " + b.target())
	for _, source := range []string{
		"SELECT id, name, note FROM " + b.schema + ".source WHERE $$pipeline_run_id_filter",
		"WITH x AS (SELECT * FROM " + b.schema + ".source WHERE $$pipeline_run_id_filter)\nSELECT id, name, note FROM x ORDER BY id DESC LIMIT 10 -- last",
		b.tableQuery("three"),
		"(SELECT id, name, note FROM " + b.schema + ".three)",
	} {
		more := map[string]string{"SOURCE_SQL": source}
		if strings.Contains(source, "$$") {
			more["PIPELINE_RUN_ID_FILTER"] = "true"
		}
		b.applyWith(Request{Action: "CREATE_TABLE", Columns: three, Rows: rows}, more)
	}
}

// tableQuery is the query that is a table's name alone, where there is such.
func (b *bench) tableQuery(table string) string {
	if !b.backend.has("TABLE") {
		return "SELECT * FROM " + b.schema + "." + table
	}
	return "TABLE " + b.schema + "." + table
}

func missingTarget(b *bench) {
	for _, q := range []Request{{Action: "OVERWRITE_TABLE", Columns: three}, {Action: "APPEND_TABLE", Columns: three}, merge("SCD1_MERGE"), merge("SCD2_MERGE"),
		{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1]}} {
		if code := b.apply(q); code != "TARGET_MISSING" {
			b.Fatal(code)
		}
	}
	b.must(Request{Action: "DROP_TABLE"})
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
	b.must(Request{Action: "DROP_TABLE"})
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
}

// lostAttempts loses an attempt before or after its commit, then tries again, for each way to see a commit.
func lostAttempts(b *bench) {
	key := Request{Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1"), row("2")}}
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE", "flag", "delete"} {
		for _, lost := range []bool{false, true} {
			b := b.fresh()
			kept := action
			q := merge(action, row("1", "changed", "x"), row("9", "new", "x"))
			if !strings.HasSuffix(action, "MERGE") {
				kept, q = "SCD2_MERGE", key
				q.Action, q.Hard = "DELETE_ROWS", action == "delete"
			}
			b.setUp(kept, row("1", "a", "x"), row("2", "b", "x"))
			q = b.request(q)
			got := b.attempt(q, b.params(q), nil, lost)
			if got.attempt.truth == lost {
				b.Fatalf("%s: committed %t, lost %t: %v", action, got.attempt.truth, lost, got.err)
			}
			before := Counts{Insert: number(0), Update: number(0), Delete: number(0), Written: number(0)}
			if !lost {
				before, _ = b.oracle.Apply(q)
			}
			b.look()
			q = b.retry(q)
			want, _ := b.oracle.Apply(q)
			total := Counts{want.Source, want.Target, number(int(*before.Insert + *want.Insert)), number(int(*before.Update + *want.Update)),
				number(int(*before.Delete + *want.Delete)), number(int(*before.Written + *want.Written))}
			earlier := []*attempted{got.attempt}
			b.expect(b.attempt(q, b.params(q), earlier, false), want, total, "")
			if !earlier[0].settled {
				b.Errorf("%s: nobody found out whether the first attempt had committed", action)
			}
			b.look()
		}
	}
}

func missingSchema(b *bench) {
	missing := b.schema + "_none"
	more := map[string]string{"TARGET_OBJECT": missing + ".t"}
	b.refused("SCHEMA_MISSING", Request{Action: "CREATE_TABLE", Columns: three}, more)
	b.refused("SCHEMA_MISSING", Request{Action: "SETUP_TABLE", SetupFor: "APPEND_TABLE", Columns: three}, more)
	b.env.CreateSchemas = true
	q := b.request(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
	params := b.params(q)
	maps.Copy(params, more)
	if got := b.attempt(q, params, nil, false); got.err != nil {
		b.Fatal(got.err)
	}
	if n := b.value("SELECT count(*) FROM " + missing + ".t"); n != "1" {
		b.Errorf("%s row(s)", n)
	}
	b.dropSchema(missing)
}

func foreignTarget(b *bench) {
	b.setUp("APPEND_TABLE", row("1", "a", "x"))
	r := maps.Clone(b.oracle.Table.Rows[0])
	r["task_run_id"] = text("1000000")
	b.insert(r)
	q := Request{Action: "APPEND_TABLE", Columns: three, Rows: []Row{row("2", "b", "x")}}
	b.must(q)
	b.record.Known = false
	b.refused("ID_REUSED", q, nil)
	b.nextTaskRun = 1000000
	b.must(q)
}

func emptyTarget(b *bench) {
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.must(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: three[:2]})
		q := merge(action, row("1", "a", "x"))
		q.Compare, q.Evolve = []string{"note", "name"}, true
		b.must(q)
		q.Rows = []Row{row("1", "a", "y")}
		b.must(q)
	}
}

func dropRefusals(b *bench) {
	b.must(Request{Action: "CREATE_TABLE", Columns: three, Rows: []Row{row("1", "a", "x")}})
	b.sibling = "FAILED"
	b.refused("DROP_REFUSED", Request{Action: "DROP_TABLE"}, nil)
	b.sibling = "PENDING"
	b.refused("DROP_REFUSED", Request{Action: "DROP_TABLE"}, nil)
	b.sibling = "SUCCESS"
	b.must(Request{Action: "DROP_TABLE"})
}

// aliasNames has columns named like the row aliases and pseudo columns of the engine's statements.
func aliasNames(b *bench) {
	for _, name := range []string{"s", "t", "c", "rowid", "etl_source", "ranked", "ties"} {
		b.Run(name, func(t *testing.T) { aliasName(t, b, name) })
	}
}

func aliasName(t *testing.T, b *bench, name string) {
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := newBench(t, b.env, b.backend)
		columns := append([]Column{{name, "int", "BIGINT"}}, three...)
		with := func(n string, values ...string) Row {
			r := row(values...)
			r[name] = text(n)
			return r
		}
		q := Request{Action: action, Keys: []string{"id"}, Compare: []string{"name", name}, Columns: columns}
		b.must(Request{Action: "SETUP_TABLE", SetupFor: action, Columns: columns, Compare: q.Compare})
		q.Rows = []Row{with("1", "1", "a", "x"), with("1", "2", "a", "x")}
		b.must(q)
		q.Order = []OrderTerm{{"note", true, false}}
		q.Rows = []Row{with("5", "1", "b", "x"), with("5", "1", "c", "y"), with("5", "2", "d", "y"), with("5", "2", "c", "x"), with("6", "3", "e", "z")}
		b.must(q) // the pointer to a row must not be the column
		q.Rows = []Row{with("5", "1", "b", "x"), with("5", "1", "c", "x")}
		b.refused("DEDUPE_TIE", q, nil) // the row must not be the column
		b.must(Request{Action: "DELETE_ROWS", Keys: []string{name}, Columns: columns[:1], Rows: []Row{{name: text("6")}}})
		b.must(Request{Action: "DELETE_ROWS", Keys: []string{name}, Columns: columns[:1], Rows: []Row{{name: text("5")}}, Hard: true})
	}
}

// otherTypes stores columns of the warehouse's own types, which no compare list names.
func otherTypes(b *bench) {
	if b.backend.OtherTypes == "" {
		b.Skip("no SELECT of other types")
	}
	source := "SELECT CAST(i AS INTEGER) AS id, CAST(i AS INTEGER) AS n, " + b.backend.OtherTypes + " FROM (SELECT 1 AS i UNION ALL SELECT 2) AS r"
	run := func(q Request, more map[string]string) error {
		q = b.request(q)
		params := map[string]string{"SQL_ACTION": q.Action, "TARGET_OBJECT": b.target(), "SOURCE_SQL": source}
		maps.Copy(params, more)
		return b.attempt(q, params, nil, false).err
	}
	merge := map[string]string{"MERGE_KEY": "id", "MERGE_COMPARE_COLUMNS": "n"}
	evolving := map[string]string{"MERGE_KEY": "id", "MERGE_COMPARE_COLUMNS": "n", "SCHEMA_EVOLUTION": "true", "MERGE_DEDUPE_ORDER": "n"}
	for _, action := range []string{"OVERWRITE_TABLE", "SCD1_MERGE", "SCD2_MERGE", "CREATE_TABLE"} {
		more := map[string]string{}
		if strings.HasSuffix(action, "MERGE") {
			more = merge
		}
		if action != "CREATE_TABLE" {
			b.exec("DROP TABLE IF EXISTS " + b.target())
			b.record = store.TargetRecord{}
			if err := run(Request{Action: "SETUP_TABLE"}, map[string]string{"SETUP_FOR": action}); err != nil {
				b.Fatal(err)
			}
		}
		for _, p := range []map[string]string{more, more, evolving} {
			if p["SCHEMA_EVOLUTION"] != "" {
				if !strings.HasSuffix(action, "MERGE") {
					continue
				}
				source += " UNION ALL " + source
			}
			if err := run(Request{Action: action}, p); err != nil {
				b.Fatalf("%s: %v", action, err)
			}
		}
		source, _, _ = strings.Cut(source, " UNION ALL SELECT CAST(i")
		same := "SELECT count(*) FROM " + b.target() + " AS t JOIN (" + source + ") AS s ON s.id = t.id AND s.n = t.n"
		if n := b.value(same); n != "2" {
			b.Errorf("%s: %s row(s)", action, n)
		}
	}
}

// unhashedRows has rows as an older program may have left them.
func unhashedRows(b *bench) {
	for _, action := range []string{"SCD1_MERGE", "SCD2_MERGE"} {
		b := b.fresh()
		b.setUp(action, row("7", "g", "x"))
		var rows []Row
		for i, column := range []string{"hash_key", "delete_flag", "hash_key"} {
			r := maps.Clone(b.oracle.Table.Rows[0])
			r["id"], r["name"], r["hash_key"] = text(fmt.Sprint(i)), text("a"), text(digest([]*string{text("a")}))
			r[column] = nil
			rows = append(rows, r)
		}
		b.insert(rows...)
		b.must(merge(action, row("0", "a", "y"), row("1", "a", "y")))
		b.must(Request{Action: "DELETE_ROWS", Keys: []string{"id"}, Columns: three[:1], Rows: []Row{row("1"), row("2")}})
		b.must(merge(action, row("0", "a", "z"), row("1", "a", "z"), row("2", "a", "z")))
	}
}
