package postgres

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestTypes(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE TYPE "+s+".colour AS ENUM ('red', 'it''s')",
			"CREATE DOMAIN "+s+".code AS varchar(5)",
			"CREATE DOMAIN "+s+".short AS "+s+".code",
			"CREATE DOMAIN "+s+".price AS numeric(8,2)",
			"CREATE DOMAIN "+s+".hues AS "+s+".colour[]")
		for _, want := range []warehouses.Type{
			{SQL: "text", Kind: warehouses.Text},
			{SQL: "character varying", Kind: warehouses.Text},
			{SQL: "character varying(32)", Kind: warehouses.Text},
			{SQL: "character(3)", Kind: warehouses.Char},
			{SQL: "bpchar", Kind: warehouses.Char},
			{SQL: `"char"`},
			{SQL: "name"},
			{SQL: "smallint", Kind: warehouses.Integer},
			{SQL: "integer", Kind: warehouses.Integer},
			{SQL: "bigint", Kind: warehouses.Integer},
			{SQL: "oid"},
			{SQL: "numeric(12,2)", Kind: warehouses.Decimal, Precision: 12, Scale: 2},
			{SQL: "numeric(38,0)", Kind: warehouses.Decimal, Precision: 38},
			{SQL: "numeric", Kind: warehouses.Decimal, Scale: -1},
			{SQL: "real", Kind: warehouses.Float},
			{SQL: "double precision", Kind: warehouses.Float},
			{SQL: "boolean", Kind: warehouses.Boolean},
			{SQL: "date", Kind: warehouses.DateType},
			{SQL: "timestamp without time zone", Kind: warehouses.Timestamp},
			{SQL: "timestamp(3) without time zone", Kind: warehouses.Timestamp},
			{SQL: "timestamp with time zone", Kind: warehouses.TimestampTZ},
			{SQL: "timestamp(0) with time zone", Kind: warehouses.TimestampTZ},
			{SQL: "time(2) without time zone", Kind: warehouses.TimeOfDay},
			{SQL: "time with time zone", Kind: warehouses.TimeOfDay},
			{SQL: "interval day to second(3)"},
			{SQL: "uuid", Kind: warehouses.UUID},
			{SQL: "bytea"},
			{SQL: "integer[]"},
			{SQL: "character varying(7)[]"},
			{SQL: "numeric(4,1)[]"},
			{SQL: "jsonb"},
			{SQL: warehouses.SQL(s + ".colour"), Kind: warehouses.Text},
			{SQL: warehouses.SQL(s + ".colour[]")},
			{SQL: warehouses.SQL(s + ".code"), Kind: warehouses.Text},
			{SQL: warehouses.SQL(s + ".short"), Kind: warehouses.Text},
			{SQL: warehouses.SQL(s + ".price"), Kind: warehouses.Decimal, Precision: 8, Scale: 2},
			{SQL: warehouses.SQL(s + ".hues")},
			{SQL: warehouses.SQL(s + ".price[]")},
		} {
			text := string(want.SQL)
			c.exec("CREATE TABLE " + s + ".t AS SELECT CAST(NULL AS " + text + ") AS v")
			if got := c.table(s, "t").Columns[0].Type; got != want {
				t.Errorf("stored %s: %+v, want %+v", text, got, want)
			}
			for _, query := range []string{"SELECT v FROM " + s + ".t -- end", "SELECT CAST(NULL AS " + text + ") AS v"} {
				columns, err := c.Describe(t.Context(), warehouses.SQL(query))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]warehouses.Column{{Name: "v", Type: want}}, columns); diff != "" {
					t.Errorf("%s: %s", query, diff)
				}
			}
			c.exec("DROP TABLE " + s + ".t")
		}
	})
}

func TestDescribe(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE SEQUENCE " + s + ".calls")
		columns, err := c.Describe(t.Context(), warehouses.SQL("WITH w AS MATERIALIZED (SELECT nextval('"+s+".calls') AS n) SELECT n, n AS n, 'x' AS word, NULL AS nothing, 1/(n - n) AS fails FROM w"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, col := range columns {
			got = append(got, col.Name+" "+string(col.Type.SQL))
		}
		if want := "n bigint, n bigint, word text, nothing text, fails bigint"; strings.Join(got, ", ") != want {
			t.Errorf("%v, want %s", got, want)
		}
		if c.value("SELECT is_called FROM "+s+".calls") != "f" {
			t.Error("the query was run")
		}
	})
}

func TestConfirm(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE TABLE " + s + ".t (a integer)")
		dry := connect(t, open(t, Options{URL: address}))
		if err := dry.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		dry.exec("CREATE TABLE " + s + ".planned (a integer)")
		for text, want := range map[string]fault.Code{
			"SELECT a FROM %.t":                                       "",
			"SELECT a FROM %.t -- the end":                            "",
			"TABLE %.t":                                               "",
			"VALUES (1), (2)":                                         "",
			"WITH w AS (SELECT 1 AS a) SELECT * FROM w":               "",
			"(SELECT 1) UNION ALL SELECT 2 ORDER BY 1":                "",
			"DELETE FROM %.t":                                         fault.SelectInvalid,
			"WITH d AS (DELETE FROM %.t RETURNING a) SELECT a FROM d": fault.SelectInvalid,
			"WITH d AS (INSERT INTO %.t VALUES (1)) SELECT 1":         fault.SelectInvalid,
			"SELECT a INTO %.other FROM %.t":                          fault.SelectInvalid,
			"SELECT a FROM %.t FOR UPDATE":                            fault.SelectInvalid,
			"SELECT a FROM (SELECT a FROM %.t FOR SHARE) AS s":        fault.SelectInvalid,
			"SELECT 1; DROP TABLE %.t":                                fault.SelectInvalid,
			"SELECT 1; SELECT 2":                                      fault.SelectInvalid,
			"DROP TABLE %.t":                                          fault.SelectInvalid,
			"CREATE TABLE %.other AS SELECT 1 AS a":                   fault.SelectInvalid,
			"EXPLAIN SELECT 1":                                        fault.SelectInvalid,
			"SHOW ALL":                                                fault.SelectInvalid,
			"COMMIT":                                                  fault.SelectInvalid,
			"SELECT a FRM %.t":                                        fault.SelectInvalid,
			"SELECT a FROM %.nowhere":                                 fault.StatementFailed,
			"SELECT b FROM %.t":                                       fault.StatementFailed,
			"SELECT a FROM elsewhere.%.t":                             fault.StatementFailed,
			"SELECT $1":                                               fault.StatementFailed,
			"SELECT 1/0":                                              fault.StatementFailed,
			"SELECT a FROM %.t WHERE a = 'x'":                         fault.StatementFailed,
			"SELECT setval('%.missing', 1)":                           fault.StatementFailed,
			"SELECT lo_import('/nowhere') FROM %.t WHERE a IN (SELECT 1)": "",
		} {
			text = strings.ReplaceAll(text, "%", s)
			for name, client := range map[string]*client{"alone": c, "in a transaction": dry} {
				err := client.Confirm(t.Context(), warehouses.SQL(text))
				if want == "" && err != nil || want != "" && !fault.Has(err, want) {
					t.Errorf("%s, %s: %v, want %q", text, name, err, want)
				}
			}
		}
		if got := dry.value("SELECT count(*) FROM " + s + ".planned"); got != "0" {
			t.Errorf("the planned table has %s rows", got)
		}
		if c.inTransaction() {
			t.Error("a transaction was left open")
		}
		dry.exec("INSERT INTO " + s + ".planned VALUES (1)") // read only no longer
		if err := dry.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

// TestInspectionsKeepTheTransaction: what fails to be inspected leaves the dry session as it was.
func TestInspectionsKeepTheTransaction(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		if err := c.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.exec("CREATE TABLE " + s + ".planned (a integer)")
		for range 3 {
			if _, err := c.Describe(t.Context(), warehouses.SQL("SELECT * FROM "+s+".nowhere")); !fault.Has(err, fault.StatementFailed) {
				t.Error(err)
			}
			if c.table(s, "nowhere") != nil {
				t.Error("found what is not there")
			}
			if c.table(s, "planned") == nil {
				t.Error("the planned table is not seen")
			}
			if found, err := c.SchemaExists(t.Context(), warehouses.QualifiedName{Schema: "no such schema"}); found || err != nil {
				t.Error(found, err)
			}
		}
		columns, err := c.Describe(t.Context(), warehouses.SQL("SELECT * FROM "+s+".planned"))
		if err != nil || len(columns) != 1 {
			t.Error(columns, err)
		}
		if err := c.Rollback(); err != nil {
			t.Error(err)
		}
		if c.table(s, "planned") != nil {
			t.Error("the rollback left the table")
		}
	})
}

func TestKinds(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("SET search_path TO "+s,
			"CREATE TABLE base (a integer)",
			"CREATE VIEW a_view AS SELECT * FROM base",
			"CREATE MATERIALIZED VIEW stored AS SELECT * FROM base",
			"CREATE TABLE parts (a integer) PARTITION BY RANGE (a)",
			"CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (10)",
			"CREATE TABLE child (b integer) INHERITS (base)",
			"CREATE SEQUENCE numbers",
			"CREATE TYPE pair AS (x integer, y integer)",
			"CREATE EXTENSION IF NOT EXISTS file_fdw",
			"CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
			"CREATE FOREIGN TABLE far (a integer) SERVER files OPTIONS (filename '/nowhere')",
			"SET search_path TO DEFAULT")
		c.after("DROP SERVER files CASCADE")
		for name, want := range map[string]string{
			"base": "table", "child": "table", "parts": "table", "part": "table", "a_view": "view", "stored": "materialized view",
			"numbers": "sequence", "pair": "composite type", "far": "foreign table",
		} {
			if got := c.table(s, name).Kind; got != want {
				t.Errorf("%s is a %q, want %q", name, got, want)
			}
		}
		for name, want := range map[string][]string{
			"child": {"parent table " + s + ".base"},
			"parts": {"partition key RANGE (a)", "partition table " + s + ".part"},
			"part":  {"parent table " + s + ".parts"},
			"base":  {"materialized view " + s + ".stored", "table " + s + ".child", "view " + s + ".a_view"},
		} {
			if diff := cmp.Diff(want, c.replacement(s, name).Dependents); diff != "" {
				t.Errorf("dependents of %s: %s", name, diff)
			}
		}
	})
}

func TestGenerators(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE SEQUENCE "+s+`."Own ids"`, "CREATE SEQUENCE "+s+".free",
			"CREATE TABLE "+s+`.t (always bigint GENERATED ALWAYS AS IDENTITY, by_default bigint GENERATED BY DEFAULT AS IDENTITY, serial bigserial, `+
				`own bigint DEFAULT nextval('`+s+`."Own ids"'), plain bigint, constant bigint DEFAULT 7, owned bigint)`,
			"ALTER SEQUENCE "+s+".free OWNED BY "+s+".t.owned")
		found := c.table(s, "t")
		for name, want := range map[string]string{"always": ".t_always_seq", "by_default": ".t_by_default_seq", "serial": ".t_serial_seq", "own": `."Own ids"`, "plain": "", "constant": "", "owned": ""} {
			if want != "" {
				want = s + want
			}
			if got := string(found.Column(name).Generator); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// TestDependents: what is listed is just what makes DROP TABLE fail.
func TestDependents(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		create := func() {
			c.exec("CREATE TABLE " + s + ".t (a integer PRIMARY KEY, b integer REFERENCES " + s + ".t, c integer CHECK (c > 0), n serial)")
			c.exec("CREATE INDEX ON "+s+".t (b)", "CREATE RULE quiet AS ON DELETE TO "+s+".t WHERE old.a < 0 DO INSTEAD SELECT count(*) FROM "+s+".t",
				"CREATE STATISTICS "+s+".pair ON a, b FROM "+s+".t", "ALTER TABLE "+s+".t ENABLE ROW LEVEL SECURITY", "CREATE POLICY all_rows ON "+s+".t USING (a IN (SELECT b FROM "+s+".t))")
		}
		create()
		if got := c.replacement(s, "t").Dependents; got != nil {
			t.Errorf("its own parts: %v", got)
		}
		c.exec("DROP TABLE " + s + ".t")
		for statement, want := range map[string]string{
			"CREATE VIEW %.v AS SELECT a, b FROM %.t":                                         "view %.v",
			"CREATE MATERIALIZED VIEW %.m AS SELECT a FROM %.t":                               "materialized view %.m",
			"CREATE TABLE %.o (x integer CONSTRAINT o_fk REFERENCES %.t)":                     "constraint o_fk on table %.o",
			"CREATE FUNCTION %.f(%.t) RETURNS integer LANGUAGE sql AS 'SELECT 1'":             "function %.f(%.t)",
			"CREATE TABLE %.o (x %.t)":                                                        "column x of table %.o",
			"CREATE TABLE %.o (x %.t[])":                                                      "column x of table %.o",
			"CREATE TABLE %.o (x integer DEFAULT nextval('%.t_n_seq'))":                       "default value for column x of table %.o",
			"CREATE TABLE %.o () INHERITS (%.t)":                                              "table %.o",
			"CREATE FUNCTION %.g() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM %.t; END": "function %.g()",
		} {
			create()
			c.exec(strings.ReplaceAll(statement, "%", s))
			got := c.replacement(s, "t").Dependents
			if want := strings.ReplaceAll(want, "%", s); len(got) == 0 || got[len(got)-1] != want {
				t.Errorf("%s: %v, want %s", statement, got, want)
			}
			if _, err := c.Exec(t.Context(), warehouses.SQL("DROP TABLE "+s+".t")); !fault.Has(err, fault.StatementFailed) {
				t.Errorf("%s: dropped all the same, %v", statement, err)
			}
			c.exec("DROP TABLE " + s + ".t CASCADE")
			c.exec("DROP TABLE IF EXISTS " + s + ".o")
		}
	})
}

func TestLost(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		c := connect(t, open(t, Options{URL: address}))
		s := c.schema()
		c.exec("CREATE TABLE " + s + ".plain (a integer, row_id bigint GENERATED ALWAYS AS IDENTITY)")
		if got := c.replacement(s, "plain").Lost; got != nil {
			t.Errorf("an engine's table loses %v", got)
		}
		role := c.role()
		publication := unique("pub")
		c.exec(
			"CREATE UNLOGGED TABLE "+s+`.t (a integer CONSTRAINT t_pk PRIMARY KEY, b text COLLATE "C" DEFAULT 'x', c integer CONSTRAINT positive CHECK (c > 0),
				d integer GENERATED ALWAYS AS (c + 1) STORED, e integer GENERATED ALWAYS AS IDENTITY, row_id bigint GENERATED ALWAYS AS IDENTITY) WITH (fillfactor = 70)`,
			"CREATE INDEX by_b ON "+s+".t (b)",
			"CREATE FUNCTION "+s+".noop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
			"CREATE TRIGGER looks BEFORE INSERT ON "+s+".t FOR EACH ROW EXECUTE FUNCTION "+s+".noop()",
			"CREATE RULE quiet AS ON DELETE TO "+s+".t DO INSTEAD NOTHING",
			"ALTER TABLE "+s+".t ENABLE ROW LEVEL SECURITY",
			"CREATE POLICY all_rows ON "+s+".t USING (true)",
			"CREATE STATISTICS "+s+".pair ON a, c FROM "+s+".t",
			"ALTER TABLE "+s+".t REPLICA IDENTITY FULL",
			"COMMENT ON COLUMN "+s+".t.c IS 'hello'",
			"GRANT SELECT (b) ON "+s+".t TO "+role,
		)
		got := strings.Join(c.replacement(s, "t").Lost, "\n")
		for _, want := range []string{"index by_b", "constraint t_pk PRIMARY KEY (a)", "constraint positive CHECK ((c > 0))", "trigger looks", "rule quiet", "policy all_rows",
			"statistics pair", "row level security", "UNLOGGED", "replica identity", "storage parameters fillfactor=70", "default of b", "generation of d", "identity of e",
			"NOT NULL of a", "NOT NULL of e", "collation of b", "grants on b", "comment of c"} {
			if !strings.Contains("\n"+got+"\n", "\n"+want+"\n") {
				t.Errorf("%q is not among what is lost", want)
			}
		}
		if n := strings.Count(got, "\n") + 1; n != 19 {
			t.Errorf("%d losses:\n%s", n, got)
		}
		c.exec("ALTER TABLE "+s+".t SET LOGGED", "CREATE PUBLICATION "+publication+" FOR TABLE "+s+".t")
		c.after("DROP PUBLICATION " + publication)
		if got := strings.Join(c.replacement(s, "t").Lost, "\n"); !strings.Contains(got, "publication "+publication) || strings.Contains(got, "UNLOGGED") {
			t.Error(got)
		}
	})
}
