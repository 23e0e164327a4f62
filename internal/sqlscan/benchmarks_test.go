package sqlscan

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/jackc/pgx/v5"
)

// benchmark is one set of queries that a DuckDB extension ships, with its tables, empty, in a schema of its name.
type benchmark struct {
	name, generate string
	queries        int
}

var benchmarks = []benchmark{
	{name: "tpch", generate: "CALL dbgen(sf => 0, schema => 'tpch')", queries: 22},
	{name: "tpcds", generate: "CALL dsdgen(sf => 0, schema => 'tpcds')", queries: 99},
}

// openBenchmarks is a DuckDB with the extensions, which internal/testservers/duckdb_extensions.sh fetches.
func openBenchmarks(t *testing.T) *sql.Conn {
	t.Helper()
	dir := os.Getenv("ETL_CRAFT_TEST_DUCKDB_EXTENSIONS")
	if dir == "" {
		t.Skip("ETL_CRAFT_TEST_DUCKDB_EXTENSIONS is not set")
	}
	db, err := sql.Open("duckdb", "?allow_unsigned_extensions=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, b := range benchmarks {
		execDuck(t, c, "LOAD '"+filepath.Join(dir, b.name+".duckdb_extension")+"'")
		execDuck(t, c, "CREATE SCHEMA "+b.name)
		execDuck(t, c, b.generate)
	}
	return c
}

func execDuck(t *testing.T, c *sql.Conn, statement string) {
	t.Helper()
	if _, err := c.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// texts are the benchmark's queries by their number.
func (b *benchmark) texts(t *testing.T, c *sql.Conn) map[int]string {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), "SELECT query_nr, query FROM "+b.name+"_queries()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	texts := map[int]string{}
	for rows.Next() {
		var number int
		var text string
		if err := rows.Scan(&number, &text); err != nil {
			t.Fatal(err)
		}
		texts[number] = text
	}
	if err := rows.Err(); err != nil || len(texts) != b.queries {
		t.Fatalf("%d queries, want %d: %v", len(texts), b.queries, err)
	}
	return texts
}

// scanned are the names of the tables that the scanner finds, each once, in order of the alphabet.
func scanned(t *testing.T, text string, syn Syntax) []string {
	t.Helper()
	var names []string
	for _, table := range parse(t, text, syn).Tables() {
		names = append(names, table.Name.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Every table of the plan that DuckDB makes without optimizing is found, and no other, in all queries of TPC-H and
// TPC-DS.
func TestBenchmarksDuckDB(t *testing.T) {
	c := openBenchmarks(t)
	execDuck(t, c, "PRAGMA disable_optimizer")
	for _, b := range benchmarks {
		execDuck(t, c, "SET schema = '"+b.name+"'")
		for number, text := range b.texts(t, c) {
			got := scanned(t, text, DuckDB)
			if want, err := plannedByDuckDB(t, c, text); err != nil || len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s %d: %v, DuckDB plans %v %v\n%s", b.name, number, got, want, err, text)
			}
		}
	}
}

// plannedByDuckDB are the tables that the plan scans.
func plannedByDuckDB(t *testing.T, c *sql.Conn, text string) ([]string, error) {
	t.Helper()
	var kind, plan string
	if err := c.QueryRowContext(t.Context(), "EXPLAIN (FORMAT json) "+text).Scan(&kind, &plan); err != nil {
		return nil, err
	}
	type node struct {
		Children []node         `json:"children"`
		Extra    map[string]any `json:"extra_info"`
	}
	var roots []node
	if err := json.Unmarshal([]byte(plan), &roots); err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	var names []string
	for len(roots) > 0 {
		n := roots[0]
		roots = append(roots[1:], n.Children...)
		if name, ok := n.Extra["Table"].(string); ok {
			names = append(names, name[strings.LastIndex(name, ".")+1:])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// A view made of a query depends on each table that the query names, as PostgreSQL records: the scanner finds the same.
func TestBenchmarksPostgres(t *testing.T) {
	c := openBenchmarks(t)
	forPostgres(t, func(t *testing.T, conn *pgx.Conn) {
		for _, b := range benchmarks {
			copyTables(t, c, conn, b.name)
			for number, text := range b.texts(t, c) {
				want, err := dependencies(t, conn, text)
				if got := scanned(t, text, PostgreSQL); err != nil || len(want) == 0 || !slices.Equal(got, want) {
					t.Errorf("%s %d: %v, PostgreSQL records %v %v\n%s", b.name, number, got, want, err, text)
				}
			}
		}
	})
}

// copyTables creates the tables of a schema of DuckDB, empty, in a temporary schema that hides earlier ones.
func copyTables(t *testing.T, c *sql.Conn, conn *pgx.Conn, schema string) {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), `
		SELECT table_name, string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position)
		FROM information_schema.columns WHERE table_schema = ? GROUP BY table_name`, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var statements strings.Builder
	fmt.Fprintf(&statements, "DISCARD TEMP;")
	for rows.Next() {
		var table, columns string
		if err := rows.Scan(&table, &columns); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&statements, "CREATE TEMP TABLE %s (%s);\n", table, columns)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), statements.String()); err != nil {
		t.Fatalf("%v\n%s", err, statements.String())
	}
}

// dependencies are the tables that a view made of the query depends on. A query in EXISTS may return columns of one name.
func dependencies(t *testing.T, conn *pgx.Conn, text string) ([]string, error) {
	t.Helper()
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	text = strings.TrimRight(text, "; \n")
	if _, err := tx.Exec(ctx, "CREATE TEMP VIEW v AS SELECT 1 AS n WHERE EXISTS ("+text+"\n)", pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, err
	}
	rows, _ := tx.Query(ctx, `
		SELECT DISTINCT c.relname FROM pg_rewrite r
		JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
		JOIN pg_class c ON c.oid = d.refobjid
		WHERE r.ev_class = 'v'::regclass AND c.oid <> r.ev_class`)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names, nil
}
