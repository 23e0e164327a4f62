package databricks

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/warehouses"
)

func (c *client) table(name string) *warehouses.Table {
	c.Helper()
	t, err := c.Table(c.Context(), c.name(name))
	if err != nil {
		c.Fatal(err)
	}
	return t
}

func (c *client) name(table string) warehouses.QualifiedName {
	return warehouses.QualifiedName{Database: c.facts.Database, Schema: c.schema, Table: table}
}

func TestTable(t *testing.T) {
	c := connect(t)
	plain := string(Dialect.Render("create_table", map[string]any{"New": Dialect.Table(c.name("plain")), "Definitions": []warehouses.SQL{
		"id int", "amount decimal(12,2)", "at timestamp", "local timestamp_ntz", "Tags array<string>", "ROW_ID " + Dialect.RowID(Dialect, c.name("plain"), "")},
		"Options": tableOptions(Dialect, warehouses.Storage{Format: warehouses.FormatNative})}))
	iceberg := string(Dialect.Render("create_table", map[string]any{"New": Dialect.Table(c.name("ice")), "Definitions": []warehouses.SQL{"id int", "row_id bigint"},
		"Options": tableOptions(Dialect, warehouses.Storage{Format: warehouses.FormatIceberg})}))
	c.exec(plain, iceberg, "CREATE VIEW "+c.schema+".v AS SELECT 1 AS one", "CREATE TABLE "+c.schema+".csv (a STRING) USING csv")
	shown := func(name string) string {
		found := c.table(name)
		if found == nil {
			return "none"
		}
		var b strings.Builder
		fmt.Fprint(&b, found.Kind, " ", found.Format)
		for _, col := range found.Columns {
			fmt.Fprint(&b, " | ", col.Name, " ", col.Type.SQL, " ", col.Generator)
		}
		return b.String()
	}
	for name, want := range map[string]string{
		"plain": "table native | id int  | amount decimal(12,2)  | at timestamp  | local timestamp_ntz  | Tags array<string>  | ROW_ID bigint IDENTITY",
		"PLAIN": "table native | id int  | amount decimal(12,2)  | at timestamp  | local timestamp_ntz  | Tags array<string>  | ROW_ID bigint IDENTITY",
		"ice":   "table iceberg | id int  | row_id bigint ",
		"v":     "view native | one int ",
		"csv":   "csv table native | a string ",
		"other": "none",
	} {
		if diff := cmp.Diff(want, shown(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	c.exec("CREATE OR REPLACE TABLE " + c.schema + ".plain USING delta AS SELECT 1 AS id, 7L AS row_id")
	if got := c.table("plain").Column("row_id"); got.Generator != "" {
		t.Errorf("a table that was made anew without it still has a generator: %+v", got)
	}
	for schema, want := range map[string]bool{c.schema: true, strings.ToUpper(c.schema): true, c.schema + "_none": false} {
		if got, err := c.SchemaExists(t.Context(), warehouses.QualifiedName{Database: c.facts.Database, Schema: schema}); err != nil || got != want {
			t.Errorf("schema %s: %t, %v", schema, got, err)
		}
	}
}

// TestReplacement: a table that is made anew with the options of the old one has what that had.
func TestReplacement(t *testing.T) {
	c := connect(t)
	for name, options := range map[string]string{
		"clustered":   "USING delta CLUSTER BY (id) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'it\\'s, =mine]' = 'a=\\'b\\', \\\\c') COMMENT 'it\\'s \\\\ a comment'",
		"partitioned": "USING delta PARTITIONED BY (day) TBLPROPERTIES (" + uniForm + ")",
	} {
		c.exec("CREATE TABLE " + c.schema + "." + name + " " + options + " AS SELECT 1 AS id, DATE '2026-09-01' AS day")
		r, err := c.Replacement(t.Context(), c.table(name))
		if err != nil || len(r.Kept) > 0 {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		was, err := c.details(t.Context(), c.name(name))
		if err != nil {
			t.Fatal(err)
		}
		c.exec("CREATE OR REPLACE TABLE " + c.schema + "." + name + string(r.Options) + " AS SELECT 2 AS id, DATE '2026-09-02' AS day")
		is, err := c.details(t.Context(), c.name(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, properties := range []map[string]string{was.properties, is.properties} {
			maps.DeleteFunc(properties, func(k, _ string) bool { return ofServer(k) })
		}
		if diff := cmp.Diff(was, is, cmp.AllowUnexported(details{})); diff != "" {
			t.Errorf("%s, with%s: %s", name, r.Options, diff)
		}
	}
	c.exec("CREATE TABLE "+c.schema+".rich (id INT COMMENT 'the key', d STRING DEFAULT 'x') TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
		"ALTER TABLE "+c.schema+".rich ADD CONSTRAINT positive CHECK (id > 0)")
	r, err := c.Replacement(t.Context(), c.table("rich"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"the comment of id", "the default of d", "the constraint positive"}, r.Kept); diff != "" {
		t.Error(diff)
	}
}
