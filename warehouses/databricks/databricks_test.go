package databricks

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestParseType(t *testing.T) {
	for text, want := range map[string]warehouses.Type{
		"string":                     {SQL: "string", Kind: warehouses.Text},
		"string collate DE":          {SQL: "string collate DE", Kind: warehouses.Text, Collation: "de"},
		"string collate UTF8_BINARY": {SQL: "string collate UTF8_BINARY", Kind: warehouses.Text},
		"varchar(5)":                 {SQL: "varchar(5)", Kind: warehouses.Text},
		"char(3)":                    {SQL: "char(3)", Kind: warehouses.Char},
		"decimal(12,2)":              {SQL: "decimal(12,2)", Kind: warehouses.Decimal, Precision: 12, Scale: 2},
		"timestamp":                  {SQL: "timestamp", Kind: warehouses.TimestampTZ},
		"timestamp_ntz":              {SQL: "timestamp_ntz", Kind: warehouses.Timestamp},
		"void":                       {SQL: "string", Kind: warehouses.Text, Untyped: true},
		"array<void>":                {SQL: "array<string>", Untyped: true},
		"array<string>":              {SQL: "array<string>"},
		"struct<a:date>":             {SQL: "struct<a:date>"},
		"interval day":               {SQL: "interval day"},
		"variant":                    {SQL: "variant"},
		"time(6)":                    {SQL: "time(6)", Kind: warehouses.TimeOfDay},
		"map<string,decimal(3,1)>":   {SQL: "map<string,decimal(3,1)>"},
	} {
		if diff := cmp.Diff(want, parseType(text)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestColumnTraits reads what SHOW CREATE TABLE prints, as Databricks documents it: one column to a line.
func TestColumnTraits(t *testing.T) {
	const text = "CREATE TABLE main.sales.orders (\n" +
		"  id BIGINT NOT NULL COMMENT 'it''s NOT NULL, GENERATED ALWAYS AS IDENTITY',\n" +
		"  `two words` STRING COLLATE UTF8_BINARY DEFAULT 'a',\n" +
		"  day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),\n" +
		"  note STRING COMMENT 'says \\' NOT NULL',\n" +
		"  ssn STRING MASK main.sales.hide,\n" +
		"  ROW_ID BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1),\n" +
		"  CONSTRAINT `pk` PRIMARY KEY (`id`))\n" +
		"USING delta\nTBLPROPERTIES (\n  'delta.minReaderVersion' = '1')\n"
	for column, want := range map[string]traits{
		"id": {notNull: true}, "two words": {hasDefault: true}, "day": {generated: true}, "note": {}, "ssn": {masked: true}, "row_id": {identity: true}, "pk": {},
	} {
		if got := columnTraits(text, column); got != want {
			t.Errorf("%s: %+v, want %+v", column, got, want)
		}
	}
	d := described{columns: [][]string{{"id", "bigint", "NULL"}, {"day", "date", "NULL"}, {"ROW_ID", "bigint", "NULL"}}}
	want := []string{"NOT NULL of id", "the generation of day", "its key constraints"}
	if diff := cmp.Diff(want, d.kept(text, details{})); diff != "" {
		t.Error(diff)
	}
}

func TestReadHost(t *testing.T) {
	for host, want := range map[string]Options{
		"dbc.example.com":            {Host: "dbc.example.com", Port: 443},
		"https://dbc.example.com/":   {Host: "dbc.example.com", Port: 443},
		"http://127.0.0.1:18290":     {Host: "127.0.0.1", Port: 18290, Plain: true},
		"https://dbc.example.com/?o": {Host: "dbc.example.com", Port: 443},
	} {
		o := Options{Host: host}
		if err := o.readHost(); err != nil || o.Host != want.Host || o.Port != want.Port || o.Plain != want.Plain {
			t.Errorf("%s: %+v, %v", host, o, err)
		}
	}
}

// TestUnreachable: an error names the place, never what signs in, and is to be tried again only where that may help.
func TestUnreachable(t *testing.T) {
	o := server(t)
	o.Token = "dapi-not-this-one"
	_, err := open(t, o).Session(t.Context())
	if !fault.Has(err, fault.WarehouseDown) || fault.As(err).Retryable || strings.Contains(err.Error(), "dapi") || !strings.Contains(fault.As(err).Hint, "token") {
		t.Errorf("wrong token: %v, retryable %t", err, fault.As(err).Retryable)
	}
	o = server(t)
	o.Schema = "no_such_schema"
	if _, err = open(t, o).Session(t.Context()); !fault.Has(err, fault.WarehouseDown) || !strings.Contains(err.Error(), "SCHEMA_NOT_FOUND") {
		t.Errorf("wrong schema: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = open(t, server(t)).Session(ctx); !fault.Has(err, fault.TaskCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestErrors(t *testing.T) {
	c := connect(t)
	c.exec("CREATE TABLE " + c.schema + ".t (id INT NOT NULL, d DECIMAL(4,1))")
	for statement, want := range map[string]string{
		"SELEC 1":                                            "PARSE_SYNTAX_ERROR: ",
		"SELECT * FROM " + c.schema + ".nowhere":             "TABLE_OR_VIEW_NOT_FOUND: ",
		"SELECT nothing FROM " + c.schema + ".t":             "UNRESOLVED_COLUMN",
		"SELECT CAST('x' AS INT)":                            "CAST_INVALID_INPUT: ",
		"SELECT 1 / 0":                                       "DIVIDE_BY_ZERO: ",
		"INSERT INTO " + c.schema + ".t VALUES (NULL, 1)":    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED: ",
		"INSERT INTO " + c.schema + ".t VALUES (1, 12345.6)": "CAST_OVERFLOW_IN_TABLE_INSERT: ",
	} {
		_, err := c.session.Exec(t.Context(), warehouses.SQL(statement))
		if e := fault.As(err); e.Code != fault.StatementFailed || e.Retryable || !strings.HasPrefix(e.Message, want) || strings.Contains(e.Message, "\n") {
			t.Errorf("%s: %s %v", statement, e.Code, err)
		}
	}
	if n, err := c.session.Exec(t.Context(), warehouses.SQL("/* first */ INSERT INTO "+c.schema+".t VALUES (1, 1), (2, 2)")); err != nil || n != -1 && n != 2 {
		t.Errorf("insert: %d, %v", n, err)
	}
	if n, err := c.session.Exec(t.Context(), warehouses.SQL("UPDATE "+c.schema+".t SET d = 3 WHERE id < 5")); err != nil || n != 2 {
		t.Errorf("update: %d, %v", n, err)
	}
	if n, err := c.session.Int(t.Context(), warehouses.SQL("SELECT sum(id) FROM "+c.schema+".t WHERE id > 5")); err != nil || n != 0 {
		t.Errorf("NULL is %d, %v", n, err)
	}
}

func TestConfirm(t *testing.T) {
	c := connect(t)
	c.exec("CREATE TABLE " + c.schema + ".t (id INT)")
	for text, good := range map[string]bool{
		"SELECT 1 AS one -- end":                                                   true,
		"/* a */ WITH x AS (SELECT 1 AS a) SELECT * FROM x":                        true,
		"(SELECT 1 AS a) UNION ALL SELECT 2":                                       true,
		"TABLE " + c.schema + ".t":                                                 true,
		"VALUES (1)":                                                               true,
		"SELECT 1; SELECT 2":                                                       false,
		"INSERT INTO " + c.schema + ".t SELECT 1":                                  false,
		"FROM " + c.schema + ".t INSERT INTO " + c.schema + ".t SELECT 1":          false,
		"WITH x AS (SELECT 1 AS a) INSERT INTO " + c.schema + ".t SELECT a FROM x": false,
		"DELETE FROM " + c.schema + ".t":                                           false,
		"EXPLAIN SELECT 1":                                                         false,
		"SHOW TABLES":                                                              false,
		"SET a = b":                                                                false,
	} {
		err := c.Confirm(t.Context(), warehouses.SQL(text))
		if good && err != nil || !good && !fault.Has(err, fault.SelectInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n, err := c.session.Int(t.Context(), warehouses.SQL("SELECT count(*) FROM "+c.schema+".t")); err != nil || n != 0 {
		t.Errorf("%d rows were written, %v", n, err)
	}
}
