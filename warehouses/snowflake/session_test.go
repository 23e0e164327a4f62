package snowflake

import (
	"slices"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestTable(t *testing.T) {
	c := connect(t, open(t, Options{DSN: server(t)}))
	c.exec("CREATE TABLE "+c.schema+".T (id INTEGER NOT NULL, amount NUMBER(12,2) DEFAULT 0, name VARCHAR, seen TIMESTAMP_NTZ, row_id NUMBER(19,0) AUTOINCREMENT START 1 INCREMENT 1 ORDER)",
		"CREATE VIEW "+c.schema+".V AS SELECT 1 AS id", "CREATE ICEBERG TABLE "+c.schema+".I (id INTEGER) EXTERNAL_VOLUME = 'SNOWFLAKE_MANAGED' CATALOG = 'SNOWFLAKE'")
	found, err := c.Table(t.Context(), c.table("T"))
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	var types []string
	for _, column := range found.Columns {
		types = append(types, string(column.Type.SQL))
	}
	if want := []string{"NUMBER(38,0)", "NUMBER(12,2)", "VARCHAR(16777216)", "TIMESTAMP_NTZ(9)", "NUMBER(19,0)"}; !slices.Equal(types, want) {
		t.Errorf("types %q", types)
	}
	if !found.Columns[0].NotNull || !found.Columns[1].HasDefault || found.Columns[2].HasDefault || found.Columns[4].Generator == "" || found.Format != warehouses.FormatNative || found.Kind != "table" {
		t.Errorf("%+v", found)
	}
	for name, want := range map[string]string{"V": "view/native", "I": "table/iceberg"} {
		if found, err := c.Table(t.Context(), c.table(name)); err != nil || found.Kind+"/"+found.Format != want {
			t.Errorf("%s: %+v %v", name, found, err)
		}
	}
	for _, name := range []warehouses.QualifiedName{c.table("NONE"), {Database: c.Facts().Database, Schema: "NONE", Table: "T"}, {Database: "NONE", Schema: "NONE", Table: "T"}} {
		if found, err := c.Table(t.Context(), name); err != nil || found != nil {
			t.Errorf("%s: %+v %v", name, found, err)
		}
	}
}

func TestReplacement(t *testing.T) {
	c := connect(t, open(t, Options{DSN: server(t)}))
	c.exec("CREATE TABLE "+c.schema+".T (id INTEGER NOT NULL, amount NUMBER(12,2) DEFAULT 0, row_id NUMBER(19,0) AUTOINCREMENT START 1 INCREMENT 1 ORDER)", "COMMENT ON TABLE "+c.schema+".T IS 'it''s mine'",
		"CREATE ICEBERG TABLE "+c.schema+".MANAGED (id INTEGER) EXTERNAL_VOLUME = 'SNOWFLAKE_MANAGED' CATALOG = 'SNOWFLAKE'",
		"CREATE ICEBERG TABLE "+c.schema+".MINE (id INTEGER) EXTERNAL_VOLUME = 'lake' CATALOG = 'glue' BASE_LOCATION = 'a'")
	of := func(name string) *warehouses.Replacement {
		t.Helper()
		table, err := c.Table(t.Context(), c.table(name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Replacement(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := of("T"); string(r.Options) != "\n  COPY GRANTS\n  COMMENT = 'it\\'s mine'" || !slices.Equal(r.Kept, []string{"NOT NULL of ID", "default of AMOUNT"}) || r.NotOwned {
		t.Errorf("%+v", r)
	}
	if r := of("MANAGED"); string(r.Options) != "\n  EXTERNAL_VOLUME = 'SNOWFLAKE_MANAGED'\n  CATALOG = 'SNOWFLAKE'\n  COPY GRANTS" || len(r.Kept) > 0 {
		t.Errorf("%+v", r)
	}
	if r := of("MINE"); len(r.Kept) != 2 || !strings.Contains(r.Kept[0], "glue") || !strings.Contains(r.Kept[1], "lake") {
		t.Errorf("%+v", r)
	}
}

func TestDescribe(t *testing.T) {
	c := connect(t, open(t, Options{DSN: server(t)}))
	columns, err := c.Describe(t.Context(), "SELECT CAST(1 AS NUMBER(12,2)) AS a, 'x' AS b, CAST('2026-01-01' AS TIMESTAMP_NTZ) AS c, true AS d, NULL AS e, CAST('2026-01-01' AS DATE) AS f, CAST(1 AS FLOAT) AS g, to_variant(1) AS h")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, column := range columns {
		text := column.Name + " " + string(column.Type.SQL)
		if column.Type.Untyped {
			text += " untyped"
		}
		got = append(got, text)
	}
	want := []string{"A NUMBER(12,2)", "B VARCHAR(16777216)", "C TIMESTAMP_NTZ(9)", "D BOOLEAN", "E VARCHAR(16777216) untyped", "F DATE", "G FLOAT", "H VARIANT"}
	if !emulated(server(t)) {
		want[1], want[4] = got[1], got[4] // an account knows how long a literal is
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestConfirm(t *testing.T) {
	c := connect(t, open(t, Options{DSN: server(t)}))
	for _, good := range []warehouses.SQL{"SELECT 1 AS a", "WITH x AS (SELECT 1 AS a) SELECT a FROM x -- end", "(SELECT 1 AS a)", "SELECT 1 AS a UNION ALL SELECT 2"} {
		if err := c.Confirm(t.Context(), good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []warehouses.SQL{"DELETE FROM t", "SELECT 1; SELECT 2", "DROP TABLE t", "SELEC 1", "INSERT INTO t SELECT 1"} {
		if err := c.Confirm(t.Context(), bad); !fault.Has(err, fault.SelectInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := c.Confirm(t.Context(), "SELECT * FROM nowhere.at_all"); !fault.Has(err, fault.StatementFailed) {
		t.Errorf("a missing table: %v", err)
	}
}

// TestVersion: what a merge is tied to changes with each commit, and not without.
func TestVersion(t *testing.T) {
	c := connect(t, open(t, Options{DSN: server(t)}))
	c.exec("CREATE TABLE "+c.schema+".T (id INTEGER)", "CREATE TABLE "+c.schema+".OTHER (id INTEGER)")
	version := func() string {
		t.Helper()
		rows, err := c.Rows(t.Context(), "SELECT "+Dialect.Version(Dialect, c.table("T"))+" AS version", 1)
		if err != nil {
			t.Fatal(err)
		}
		return rows[0][0]
	}
	seen := []string{version()}
	for _, statement := range []string{"INSERT INTO T VALUES (1)", "UPDATE T SET id = 2", "DELETE FROM T", "MERGE INTO T USING (SELECT 3 AS id) AS s ON T.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"} {
		c.exec("USE SCHEMA "+c.schema, statement, "INSERT INTO OTHER VALUES (1)")
		v := version()
		if slices.Contains(seen, v) || version() != v {
			t.Errorf("%s: version %s, before %q", statement, v, seen)
		}
		seen = append(seen, v)
	}
}

func TestSessionsSettings(t *testing.T) {
	c := connect(t, open(t, Options{DSN: server(t)}))
	zone, err := c.Rows(t.Context(), Dialect.Render("time_zone", nil), 1)
	if err != nil || zone[0][0] != "UTC" {
		t.Error(zone, err)
	}
	if emulated(server(t)) {
		return
	}
	for name, want := range settings {
		shown, err := c.named(t.Context(), "SHOW PARAMETERS LIKE "+Dialect.Text(name)+" IN SESSION", 1)
		if err != nil || len(shown) != 1 || !strings.EqualFold(shown[0]["value"], want) {
			t.Errorf("%s: %v %v", name, shown, err)
		}
	}
}

func TestDatabase(t *testing.T) {
	for name, want := range map[string]string{"sales": "SALES", `"Sales"`: "Sales", `"a""b"`: `a"b`} {
		if got := Database(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
