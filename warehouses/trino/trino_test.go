package trino

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinodb/trino-go-client/trino"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// probe is a session for a test's own statements, in a schema that goes with the test.
type probe struct {
	*testing.T
	*session
	schema string
}

var number atomic.Int64

func connect(t *testing.T) *probe {
	t.Helper()
	s, err := open(t, server(t)).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &probe{t, s.(*session), fmt.Sprintf("tt_%x_%d", time.Now().UnixNano(), number.Add(1))}
	c.exec("CREATE SCHEMA " + c.schema)
	t.Cleanup(func() {
		if _, err := s.Exec(context.Background(), warehouses.SQL("DROP SCHEMA "+c.schema+" CASCADE")); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *probe) exec(statements ...string) {
	c.Helper()
	for _, s := range statements {
		if _, err := c.session.Exec(c.Context(), warehouses.SQL(s)); err != nil {
			c.Fatalf("%s: %v", s, err)
		}
	}
}

func (c *probe) name(table string) warehouses.QualifiedName {
	return warehouses.QualifiedName{Database: c.facts.Database, Schema: c.schema, Table: table}
}

func TestDescribeAndStore(t *testing.T) {
	c := connect(t)
	types := []struct{ selected, described, stored string }{
		{"CAST(1 AS tinyint)", "tinyint", "integer"},
		{"CAST(1 AS smallint)", "smallint", "integer"},
		{"1", "integer", "integer"},
		{"CAST(1 AS bigint)", "bigint", "bigint"},
		{"CAST(1 AS decimal(18,4))", "decimal(18,4)", "decimal(18,4)"},
		{"CAST(1 AS decimal(38,0))", "decimal(38,0)", "decimal(38,0)"},
		{"REAL '1'", "real", "real"},
		{"DOUBLE '1'", "double", "double"},
		{"true", "boolean", "boolean"},
		{"CAST('a' AS varchar(20))", "varchar(20)", "varchar"},
		{"CAST('a' AS varchar)", "varchar", "varchar"},
		{"CAST('a' AS char(3))", "char(3)", "varchar"},
		{"DATE '2026-09-01'", "date", "date"},
		{"TIME '01:02:03'", "time(0)", "time(6)"},
		{"TIMESTAMP '2026-09-01 01:02:03'", "timestamp(0)", "timestamp(6)"},
		{"CAST(TIMESTAMP '2026-09-01 01:02:03' AS timestamp(9))", "timestamp(9)", "timestamp(6)"},
		{"TIMESTAMP '2026-09-01 01:02:03.123 Europe/Paris'", "timestamp(3) with time zone", "timestamp(6) with time zone"},
		{"UUID 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "uuid", "uuid"},
		{"X'6162'", "varbinary", "varbinary"},
		{"ARRAY[1]", "array(integer)", "array(integer)"},
		{"MAP(ARRAY['k'], ARRAY[CAST(1 AS decimal(3,1))])", "map(varchar(1), decimal(3, 1))", "map(varchar, decimal(3,1))"},
		{"CAST(ROW(1, 'x') AS ROW(a integer, b varchar))", "row(a integer, b varchar)", "row(a integer, b varchar)"},
		{"CAST(ROW(1, 'x', 2) AS ROW(tinyint tinyint, a char(2), n smallint))", "row(tinyint tinyint, a char(2), n smallint)", "row(tinyint integer, a varchar, n integer)"},
		{"ARRAY[TIMESTAMP '2026-09-01 01:02:03 UTC']", "array(timestamp(0) with time zone)", "array(timestamp(6) with time zone)"},
		{"ARRAY[TIME '01:02:03']", "array(time(0))", "array(time(6))"},
	}
	var columns []string
	for i, typ := range types {
		columns = append(columns, fmt.Sprintf("%s AS c%d", typ.selected, i))
	}
	query := "SELECT " + strings.Join(columns, ", ")
	described, err := c.Describe(t.Context(), warehouses.SQL(query+", NULL AS Nothing"))
	if err != nil {
		t.Fatal(err)
	}
	c.exec("CREATE TABLE " + c.schema + ".types AS " + query)
	table, err := c.Table(t.Context(), c.name("types"))
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range types {
		if got := string(described[i].Type.SQL); got != typ.described {
			t.Errorf("%s is described as %s, want %s", typ.selected, got, typ.described)
		}
		if got := string(table.Columns[i].Type.SQL); got != typ.stored {
			t.Errorf("%s is stored as %s, want %s", typ.selected, got, typ.stored)
		}
		if got := stored(described[i].Type, warehouses.FormatIceberg); got.SQL != table.Columns[i].Type.SQL {
			t.Errorf("%s: stored says %s, the table %s", typ.selected, got.SQL, table.Columns[i].Type.SQL)
		}
	}
	last := described[len(described)-1]
	if !last.Type.Untyped || last.Name != "nothing" {
		t.Errorf("NULL is described as %+v", last)
	}
}

func TestConfirm(t *testing.T) {
	c := connect(t)
	for _, text := range []string{"SELECT 1", "WITH x AS (SELECT 1 AS a) SELECT * FROM x -- end", "TABLE system.runtime.nodes", "VALUES 1"} {
		if err := c.Confirm(t.Context(), warehouses.SQL(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, code := range map[string]fault.Code{
		"DELETE FROM t":                   fault.SelectInvalid,
		"SELECT 1) AS a; DROP TABLE t --": fault.SelectInvalid,
		"SELECT * FROM nowhere.t":         fault.StatementFailed,
	} {
		if err := c.Confirm(t.Context(), warehouses.SQL(text)); !fault.Has(err, code) {
			t.Errorf("%s: %v, want %s", text, err, code)
		}
	}
}

func TestReplacementKeepsProperties(t *testing.T) {
	c := connect(t)
	c.exec("CREATE TABLE " + c.schema + ".t (id integer, d date, n varchar) COMMENT 'it''s' WITH (format = 'ORC', partitioning = ARRAY['d'], sorted_by = ARRAY['id'])")
	table, err := c.Table(t.Context(), c.name("t"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.Replacement(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	c.exec("CREATE OR REPLACE TABLE " + c.schema + ".t" + string(before.Options) + " AS SELECT 1 AS id, DATE '2026-09-01' AS d, 'x' AS n")
	after, err := c.Replacement(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	if before.Options != after.Options || !strings.Contains(string(after.Options), "partitioning = ARRAY['d']") || !strings.Contains(string(after.Options), "COMMENT 'it''s'") {
		t.Errorf("before:\n%s\nafter:\n%s", before.Options, after.Options)
	}
	c.exec("COMMENT ON COLUMN "+c.schema+".t.n IS 'a note'", "CREATE TABLE "+c.schema+".strict (id integer NOT NULL)")
	for name, want := range map[string]string{"t": "the comment of n", "strict": "NOT NULL of id"} {
		table, err := c.Table(t.Context(), c.name(name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Replacement(t.Context(), table)
		if err != nil || !slices.Equal(r.Kept, []string{want}) {
			t.Errorf("%s keeps %v, %v", name, r.Kept, err)
		}
	}
}

// endless runs for minutes.
const endless = "SELECT count(*) AS n FROM UNNEST(sequence(1, 10000)) AS a (x) CROSS JOIN UNNEST(sequence(1, 10000)) AS b (y) CROSS JOIN UNNEST(sequence(1, 1000)) AS c (z) WHERE x * y + z > 5"

func TestCancelledStatementIsGone(t *testing.T) {
	c, other := connect(t), connect(t)
	statements := map[string]func(context.Context) error{
		"query": func(ctx context.Context) error { _, err := c.Int(ctx, endless); return err },
		"write": func(ctx context.Context) error {
			_, err := c.Exec(ctx, warehouses.SQL("CREATE TABLE "+c.schema+".never AS "+endless+" HAVING count(*) > 0"))
			return err
		},
	}
	for name, run := range statements {
		marked := warehouses.WithOrigin(t.Context(), 7, number.Add(1)+time.Now().UnixNano(), "endless")
		ctx, cancel := context.WithTimeout(marked, 3*time.Second)
		err := run(ctx)
		cancel()
		if !fault.Has(err, fault.TaskCancelled) || strings.Contains(err.Error(), "still runs") {
			t.Errorf("%s: %v", name, err)
		}
		mark, _, _ := strings.Cut(warehouses.Marked(marked, ""), " step")
		mark = mark[len("/* "):]
		rows, err := other.Rows(t.Context(), warehouses.SQL("SELECT state FROM system.runtime.queries WHERE query LIKE '%"+mark+"%' AND query NOT LIKE '%runtime.queries%'"), 10)
		if err != nil || len(rows) != 1 || rows[0][0] != "FAILED" {
			t.Errorf("%s: in the server it is %v, %v", name, rows, err)
		}
	}
}

// TestRunningStatements finds what an earlier attempt of the same task run has left in the server, and nothing else.
func TestRunningStatements(t *testing.T) {
	c, other := connect(t), connect(t)
	id := time.Now().UnixNano()
	running := func(taskRun int64) int64 {
		t.Helper()
		n, err := other.Int(warehouses.WithOrigin(t.Context(), 7, taskRun, "inspect"), Dialect.Render("running_statements", struct{ TaskRunID warehouses.SQL }{warehouses.Int(taskRun)}))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithCancel(warehouses.WithOrigin(t.Context(), 7, id, "endless"))
	done := make(chan error)
	go func() {
		_, err := c.Int(ctx, endless)
		done <- err
	}()
	for deadline := time.Now().Add(time.Minute); running(id) != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the statement is not found")
		}
	}
	if n := running(id + 1); n != 0 {
		t.Errorf("%d statements of another task run", n)
	}
	cancel()
	if err := <-done; !fault.Has(err, fault.TaskCancelled) {
		t.Error(err)
	}
	if n := running(id); n != 0 {
		t.Errorf("%d statements after it was cancelled", n)
	}
}

func TestConflictOfWriters(t *testing.T) {
	c := connect(t)
	c.exec("CREATE TABLE " + c.schema + ".t AS SELECT CAST(x AS integer) AS id, 0 AS n FROM UNNEST(sequence(1, 1000)) AS s (x)")
	w := c.w
	var conflicts, done atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			s, err := w.Session(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = s.Close() }()
			_, err = s.Exec(t.Context(), warehouses.SQL("MERGE INTO "+c.schema+".t AS t USING (SELECT id FROM "+c.schema+".t) AS s ON s.id = t.id WHEN MATCHED THEN UPDATE SET n = t.n + 1"))
			switch {
			case err == nil:
				done.Add(1)
			case fault.Has(err, fault.WriteConflict) && fault.As(err).Retryable:
				conflicts.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	n, err := c.Int(t.Context(), warehouses.SQL("SELECT max(n) FROM "+c.schema+".t"))
	if err != nil || n != done.Load() || conflicts.Load() == 0 {
		t.Errorf("%d writers done, %d in conflict, the rows say %d, %v", done.Load(), conflicts.Load(), n, err)
	}
}

func TestRefusedConnections(t *testing.T) {
	o := server(t)
	for _, c := range []struct {
		change func(*Options)
		code   fault.Code
		says   string
	}{
		{func(o *Options) { o.Catalog = "system" }, fault.ConfigInvalid, "has the connector"},
		{func(o *Options) { o.Catalog = "nowhere" }, fault.ConfigInvalid, "has no catalog nowhere"},
		{func(o *Options) { o.Password = "hush-hush" }, fault.ConfigInvalid, "only over TLS"},
		{func(o *Options) { o.TLS, o.Password = true, "hush-hush" }, fault.WarehouseDown, "no connection to Trino"},
		{func(o *Options) { o.Port = 1 }, fault.WarehouseDown, "no connection to Trino"},
	} {
		changed := o
		c.change(&changed)
		w, err := Open(changed)
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), retryTimeout+10*time.Second)
			_, err = w.Session(ctx)
			cancel()
			_ = w.Close()
		}
		if !fault.Has(err, c.code) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v", changed, err)
		}
	}
}

func TestLocation(t *testing.T) {
	c := connect(t)
	where := "local:///" + c.schema + "/elsewhere"
	c.exec("CREATE TABLE " + c.schema + ".t (id bigint)" + string(Dialect.TableOptions(Dialect, warehouses.Storage{Format: warehouses.FormatIceberg, Location: where})))
	shown, err := c.Rows(t.Context(), warehouses.SQL("SHOW CREATE TABLE "+c.schema+".t"), 1)
	if err != nil || !strings.Contains(shown[0][0], "location = '"+where) {
		t.Errorf("%v, %v", shown, err)
	}
}

// TestCommitErrors: one name of the server is for commits that another writer prevented and for those that cannot succeed.
func TestCommitErrors(t *testing.T) {
	for text, code := range map[string]fault.Code{
		"Failed to commit the transaction during write: Found conflicting files that can contain records matching true: [a.parquet]":          fault.WriteConflict,
		"Failed to commit the transaction during write: Found new conflicting delete files that can apply to records matching x: [b.parquet]": fault.WriteConflict,
		"Failed to commit the transaction during insert: Metadata location [a] is not same as table metadata location [b] for s.t":            fault.WriteConflict,
		"Failed to commit the transaction during insert: Failed to update table due to concurrent updates":                                    fault.WriteConflict,
		"Failed to set column type: Cannot change column type: q: long -> int":                                                                fault.StatementFailed,
	} {
		s := &session{w: &warehouse{place: "h:1"}}
		err := s.failed(t.Context(), &trino.ErrQueryFailed{Reason: &trino.ErrTrino{ErrorName: commitError, ErrorType: "EXTERNAL", Message: text}})
		if !fault.Has(err, code) || fault.As(err).Retryable != (code == fault.WriteConflict) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
