package sql

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

var update = flag.Bool("update", false, "rewrite the golden plans")

var (
	orders    = "SELECT order_id, customer, amount FROM raw.orders WHERE order_date = $$run_date -- the run's day"
	customers = "SELECT customer_id, name, email, updated_at FROM raw.customers"

	createOrders  = task("SQL_ACTION", CreateTable, "TARGET_OBJECT", "sales.orders", "SOURCE_SQL", orders, "RUN_DATE_SUBSTITUTION", "true")
	appendOrders  = createOrders.with("SQL_ACTION", AppendTable)
	setupAppend   = createOrders.with("SQL_ACTION", SetupTable, "SETUP_FOR", AppendTable)
	overwrite     = createOrders.with("SQL_ACTION", OverwriteTable)
	setupOver     = createOrders.with("SQL_ACTION", SetupTable, "SETUP_FOR", OverwriteTable)
	scd1          = task("SQL_ACTION", SCD1Merge, "TARGET_OBJECT", "sales.customers", "SOURCE_SQL", customers, "MERGE_KEY", "customer_id", "MERGE_COMPARE_COLUMNS", "name|email")
	scd2          = scd1.with("SQL_ACTION", SCD2Merge)
	setupSCD1     = task("SQL_ACTION", SetupTable, "TARGET_OBJECT", "sales.customers", "SOURCE_SQL", customers)
	deleteSoft    = task("SQL_ACTION", DeleteRows, "TARGET_OBJECT", "sales.customers", "SOURCE_SQL", "SELECT customer_id FROM raw.gone", "MERGE_KEY", "customer_id")
	deleteHard    = deleteSoft.with("HARD_DELETE", "true")
	dropOrders    = task("SQL_ACTION", DropTable, "TARGET_OBJECT", "sales.orders")
	wider         = "SELECT customer_id, name, email, updated_at, CAST(1.5 AS DECIMAL(8,3)) AS score FROM raw.customers"
	rawStatements = []string{
		"CREATE SCHEMA raw",
		"CREATE TABLE raw.orders (order_id BIGINT, customer VARCHAR, amount DECIMAL(12,2), order_date DATE)",
		"CREATE TABLE raw.customers (customer_id BIGINT, name VARCHAR, email VARCHAR, updated_at TIMESTAMP)",
		"CREATE TABLE raw.gone (customer_id INTEGER)",
		"INSERT INTO raw.orders VALUES (1, 'ann', 12.50, DATE '2026-09-01')",
		"INSERT INTO raw.customers VALUES (1, 'ann', 'ann@example.com', TIMESTAMP '2026-09-01 10:00:00')",
	}
)

// goldenCase is an action in a situation: what ran before, and what is planned now.
type goldenCase struct {
	name   string
	before func(b *bench)
	task   taskParams
	others []taskParams
}

func ran(p taskParams, others ...taskParams) func(*bench) {
	return func(b *bench) { b.run(p, others...) }
}

func all(steps ...func(*bench)) func(*bench) {
	return func(b *bench) {
		for _, s := range steps {
			s(b)
		}
	}
}

func did(statements ...string) func(*bench) { return func(b *bench) { b.exec(statements...) } }

// commented gives the target a comment, where tables have them.
func commented(b *bench) {
	if b.env.Dialect.Formats[0] == warehouses.FormatNative {
		b.exec("COMMENT ON TABLE sales.orders IS 'it''s the orders'")
	}
}

func dropGenerator(b *bench) {
	if b.env.Dialect.Sequences {
		b.exec("ALTER TABLE sales.orders ALTER row_id DROP DEFAULT")
	} else {
		b.exec("ALTER TABLE sales.orders ALTER row_id DROP IDENTITY")
	}
}

var goldenCases = []goldenCase{
	{"create_table/first_run", nil, createOrders, nil},
	{"create_table/rerun", all(ran(createOrders), commented), createOrders, nil},
	{"create_table/other_columns", ran(createOrders), createOrders.with("SOURCE_SQL", "SELECT order_id, amount, customer FROM raw.orders", "RUN_DATE_SUBSTITUTION", "false"), nil},
	{"create_table/loses_index", all(ran(createOrders), did("CREATE INDEX by_customer ON sales.orders (customer)")), createOrders, nil},
	{"create_table/refused_view", did("CREATE SCHEMA sales", "CREATE VIEW sales.orders AS SELECT 1 AS one"), createOrders, nil},
	{"create_table/refused_engine_column", nil, createOrders.with("SOURCE_SQL", "SELECT order_id, order_date AS task_run_id FROM raw.orders", "RUN_DATE_SUBSTITUTION", "false"), nil},
	{"create_table/refused_name", nil, createOrders.with("SOURCE_SQL", `SELECT * FROM (SELECT order_id AS "order id" FROM raw.orders) AS o`, "RUN_DATE_SUBSTITUTION", "false"), nil},
	{"create_table/refused_duplicate", nil, createOrders.with("SOURCE_SQL", `SELECT * FROM (SELECT order_id FROM raw.orders) AS a, (SELECT customer AS Order_Id FROM raw.orders) AS b`, "RUN_DATE_SUBSTITUTION", "false"), nil},
	{"create_table/refused_missing_source", nil, createOrders.with("SOURCE_SQL", "SELECT * FROM raw.nowhere", "RUN_DATE_SUBSTITUTION", "false"), nil},
	{"setup_table/first_run", nil, setupSCD1, []taskParams{scd2}},
	{"setup_table/rerun", ran(setupSCD1, scd1), setupSCD1, []taskParams{scd1}},
	{"setup_table/refused_mixed_writers", nil, setupSCD1, []taskParams{scd1, appendOrders.with("TARGET_OBJECT", "sales.customers")}},
	{"setup_table/refused_no_writer", nil, setupSCD1, nil},
	{"overwrite_table/first_run", ran(setupOver), overwrite, nil},
	{"overwrite_table/converted", all(ran(setupOver), did("ALTER TABLE sales.orders ALTER amount TYPE DECIMAL(14,2)")), overwrite, nil},
	{"overwrite_table/evolution", ran(setupOver), overwrite.with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", "SELECT *, 'x' AS note FROM ("+orders+"\n) AS o"), nil},
	{"overwrite_table/refused_missing", nil, overwrite, nil},
	{"overwrite_table/refused_new_column", ran(setupOver), overwrite.with("SOURCE_SQL", "SELECT *, 'x' AS note FROM ("+orders+"\n) AS o"), nil},
	{"overwrite_table/refused_lost_column", ran(setupOver), overwrite.with("SOURCE_SQL", "SELECT order_id FROM raw.orders WHERE order_date = $$run_date"), nil},
	{"overwrite_table/refused_audit_columns", ran(setupAppend), overwrite, nil},
	{"append_table/first_run", ran(setupAppend), appendOrders, nil},
	{"append_table/refused_no_identity", did("CREATE SCHEMA sales", "CREATE TABLE sales.orders (order_id BIGINT, customer VARCHAR, amount DECIMAL(12,2))"), appendOrders, nil},
	{"append_table/refused_no_generator", all(ran(setupAppend), dropGenerator), appendOrders, nil},
	{"scd1_merge/first_run", ran(setupSCD1, scd1), scd1, nil},
	{"scd1_merge/rerun", all(ran(setupSCD1, scd1), ran(scd1)), scd1, nil},
	{"scd1_merge/dedupe", ran(setupSCD1, scd1), scd1.with("MERGE_DEDUPE_ORDER", "updated_at DESC NULLS FIRST, email"), nil},
	{"scd1_merge/preserve", ran(setupSCD1, scd1), scd1.with("PRESERVE_TARGET", "true"), nil},
	{"scd1_merge/evolution", all(ran(setupSCD1, scd1), ran(scd1)), scd1.with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", wider), nil},
	{"scd1_merge/refused_type_change", ran(setupSCD1, scd1), scd1.with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", "SELECT CAST(customer_id AS INTEGER) AS customer_id, name, email, updated_at FROM raw.customers"), nil},
	{"scd1_merge/refused_compare_list", all(ran(setupSCD1, scd1), ran(scd1)), scd1.with("MERGE_COMPARE_COLUMNS", "email|name"), nil},
	{"scd1_merge/refused_unknown_hash", all(ran(setupSCD1, scd1), ran(scd1), func(b *bench) { clear(b.records) }), scd1, nil},
	{"scd1_merge/refused_float", all(did("ALTER TABLE raw.customers ADD COLUMN balance DOUBLE PRECISION"), ran(setupSCD1.with("SOURCE_SQL", "SELECT * FROM raw.customers"), scd1)),
		scd1.with("MERGE_COMPARE_COLUMNS", "balance", "SOURCE_SQL", "SELECT * FROM raw.customers"), nil},
	{"scd2_merge/first_run", ran(setupSCD1, scd2), scd2, nil},
	{"scd2_merge/rerun", all(ran(setupSCD1, scd2), ran(scd2)), scd2, nil},
	{"scd2_merge/evolution", all(ran(setupSCD1, scd2), ran(scd2)), scd2.with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", wider), nil},
	{"delete_rows/soft", ran(setupSCD1, scd1), deleteSoft, nil},
	{"delete_rows/soft_history", ran(setupSCD1, scd2), deleteSoft, nil},
	{"delete_rows/hard", ran(setupSCD1, scd2), deleteHard, nil},
	{"delete_rows/refused_no_flag", ran(setupAppend.with("TARGET_OBJECT", "sales.customers", "SOURCE_SQL", customers, "RUN_DATE_SUBSTITUTION", "false")), deleteSoft, nil},
	{"drop_table/first_run", ran(createOrders), dropOrders, []taskParams{createOrders}},
	{"drop_table/rerun", nil, dropOrders, []taskParams{createOrders}},
	{"drop_table/refused_no_create", ran(createOrders), dropOrders, nil},
}

// notFor are cases that say nothing about some dialects: those without indexes, those that compute a ROW_ID without a
// generator, and those to which INTEGER and BIGINT are one type.
var notFor = map[string]func(*warehouses.Dialect) bool{
	"create_table/loses_index":          func(d *warehouses.Dialect) bool { return !d.Transactional },
	"append_table/refused_no_generator": func(d *warehouses.Dialect) bool { return d.ComputesRowID },
	"scd1_merge/refused_type_change":    func(d *warehouses.Dialect) bool { return d.ParseType("INTEGER").SQL == d.ParseType("BIGINT").SQL },
}

// icebergCases are for dialects whose tasks may choose the format of their table.
var icebergCases = []goldenCase{
	{"iceberg/create_table", nil, inIceberg(createOrders), nil},
	{"iceberg/create_table_rerun", ran(inIceberg(createOrders)), inIceberg(createOrders), nil},
	{"iceberg/create_table_refused_native", ran(createOrders), inIceberg(createOrders), nil},
	{"iceberg/setup_table", nil, inIceberg(setupSCD1), []taskParams{scd2}},
	{"iceberg/overwrite_table_evolution", ran(inIceberg(setupOver)), inIceberg(overwrite).with("SCHEMA_EVOLUTION", "true", "SOURCE_SQL", "SELECT *, 'x' AS note FROM ("+orders+"\n) AS o"), nil},
	{"iceberg/append_table", ran(inIceberg(setupAppend)), inIceberg(appendOrders), nil},
	{"iceberg/scd1_merge", all(ran(inIceberg(setupSCD1), scd1), ran(inIceberg(scd1))), inIceberg(scd1), nil},
	{"iceberg/scd2_merge", ran(inIceberg(setupSCD1), scd2), inIceberg(scd2), nil},
	{"iceberg/drop_table", ran(inIceberg(createOrders)), inIceberg(dropOrders), []taskParams{createOrders}},
}

func inIceberg(p taskParams) taskParams { return p.with("TABLE_FORMAT", warehouses.FormatIceberg) }

// TestGoldenPlans compares every plan, and every refusal, with the text that was reviewed, and then what the task sends to
// the warehouse with its plan.
func TestGoldenPlans(t *testing.T) {
	for _, on := range slices.Concat(backends(t), onTrino(t), onDatabricks(t), inCatalog(t)) {
		for _, c := range slices.Concat(goldenCases, icebergCases) {
			if on.runs != nil && !on.runs(c.name) {
				continue
			}
			t.Run(on.name+"/"+c.name, func(t *testing.T) {
				if !on.alone {
					t.Parallel()
				}
				b := newBench(t, on)
				if skip, known := notFor[c.name]; known && skip(b.env.Dialect) || strings.HasPrefix(c.name, "iceberg/") && len(b.env.Dialect.Formats) == 1 {
					return
				}
				b.exec(rawStatements...)
				if c.before != nil {
					c.before(b)
				}
				got := ""
				plan, err := b.plan(c.task, c.others...)
				if err != nil {
					e := fault.As(err)
					got = string(e.Code) + "\nerror: " + e.Error() + "\nhint: " + e.Hint + "\n"
				} else {
					got = plan.String()
				}
				compareGolden(t, filepath.Join("testdata", "plans", c.name+"."+b.env.Dialect.Name+".sql"), b.same(got))
				if err == nil {
					b.checkReceived(plan, c.task, c.others...)
				}
			})
		}
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update after review):\n%s", path, diff)
	}
}
