package duckdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

type session struct {
	w     *warehouse
	conn  *sql.Conn
	facts warehouses.Facts
	open  bool // a transaction
	done  bool
}

func (s *session) Facts() warehouses.Facts { return s.facts }

func (s *session) exec(ctx context.Context, statement warehouses.SQL) (sql.Result, error) {
	return s.conn.ExecContext(ctx, warehouses.Marked(ctx, statement))
}

func (s *session) row(ctx context.Context, query warehouses.SQL, args ...any) *sql.Row {
	return s.conn.QueryRowContext(ctx, warehouses.Marked(ctx, query), args...)
}

// Confirm uses DuckDB's own serializer of statements, which takes nothing but SELECTs and counts them.
func (s *session) Confirm(ctx context.Context, text warehouses.SQL) error {
	var answer string
	query := "SELECT CAST(json_serialize_sql(" + Dialect.Text(string(text)) + ") AS VARCHAR)"
	if err := s.row(ctx, query).Scan(&answer); err != nil {
		return s.failed(ctx, err)
	}
	var parsed struct {
		Error      bool              `json:"error"`
		Message    string            `json:"error_message"`
		Statements []json.RawMessage `json:"statements"`
	}
	if err := json.Unmarshal([]byte(answer), &parsed); err != nil {
		return fmt.Errorf("read DuckDB's parse of the SELECT: %w", err)
	}
	switch {
	case parsed.Error:
		return fault.New(fault.SelectInvalid, "DuckDB does not take it as one SELECT: %s", parsed.Message).WithHint("write one read-only SELECT")
	case len(parsed.Statements) != 1:
		return fault.New(fault.SelectInvalid, "DuckDB reads %d statements", len(parsed.Statements)).WithHint("write one read-only SELECT")
	}
	return nil
}

func (s *session) Describe(ctx context.Context, query warehouses.SQL) ([]warehouses.Column, error) {
	described, err := s.Rows(ctx, "SELECT column_name, column_type FROM (DESCRIBE "+query+"\n)", math.MaxInt)
	if err != nil {
		return nil, err
	}
	columns := make([]warehouses.Column, len(described))
	integers := false
	for i, d := range described {
		columns[i] = warehouses.Column{Name: d[0], Type: parseType(d[1])}
		integers = integers || strings.HasPrefix(d[1], "INTEGER")
	}
	if !integers || !literalNull.MatchString(string(query)) {
		return columns, nil
	}
	return columns, s.markUntyped(ctx, query, columns)
}

// literalNull is what a query must hold to have a column without a type: a NULL, or an empty list.
var literalNull = regexp.MustCompile(`(?i)null|\[|list`)

// markUntyped finds the NULLs without a type, of which DESCRIBE says INTEGER. typeof does not, and the join on false reads
// no rows.
func (s *session) markUntyped(ctx context.Context, query warehouses.SQL, columns []warehouses.Column) error {
	names, types := make([]warehouses.SQL, len(columns)), make([]warehouses.SQL, len(columns))
	for i := range columns {
		names[i] = warehouses.SQL(fmt.Sprintf("c%d", i))
		types[i] = "typeof(s." + names[i] + ")"
	}
	bound, err := s.Rows(ctx, "SELECT "+warehouses.Join(types, ", ")+"\nFROM (SELECT 1) AS one\nLEFT JOIN (\n"+query+"\n) AS s ("+warehouses.Join(names, ", ")+") ON false", 1)
	if err != nil {
		return err
	}
	for i := range columns {
		columns[i].Type.Untyped = bound[0][i] == untyped || strings.HasPrefix(bound[0][i], untyped+"[")
	}
	return nil
}

// untyped is how DuckDB prints the type of a NULL that has none.
const untyped = `"NULL"`

var nextval = regexp.MustCompile(`^nextval\('(.+)'\)$`)

// Table asks for the one table. The catalog's table functions would list every column of every database first.
func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	t := &warehouses.Table{Name: name, Kind: "table", Format: warehouses.FormatNative}
	rows, err := s.Rows(ctx, "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info("+Dialect.Text(string(Dialect.Table(name)))+")", math.MaxInt)
	var missing *duckdb.Error
	if errors.As(err, &missing) && missing.Type == duckdb.ErrorTypeCatalog {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	onlyTablesHave := false
	for _, r := range rows {
		c := warehouses.TableColumn{Column: warehouses.Column{Name: r[0], Type: parseType(r[1])}, NotNull: r[2] == "true", HasDefault: r[3] != "NULL"}
		if m := nextval.FindStringSubmatch(r[3]); m != nil {
			c.Generator = warehouses.SQL(strings.ReplaceAll(m[1], "''", "'"))
		}
		onlyTablesHave = onlyTablesHave || c.NotNull || c.HasDefault
		t.Columns = append(t.Columns, c)
	}
	if onlyTablesHave {
		return t, nil
	}
	views, err := s.Rows(ctx, "SELECT view_name FROM duckdb_views() WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(view_name) = lower($3)", 1, name.Database, name.Schema, name.Table)
	if len(views) > 0 {
		t.Kind = "view"
	}
	return t, err
}

const lostQuery = `
SELECT 'index ' || index_name FROM duckdb_indexes() WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)
UNION ALL
SELECT 'constraint ' || constraint_text FROM duckdb_constraints()
WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) AND constraint_type <> 'NOT NULL'
UNION ALL
SELECT 'comment of ' || column_name FROM duckdb_columns()
WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) AND comment IS NOT NULL`

const commentQuery = `
SELECT comment FROM duckdb_tables()
WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) AND comment IS NOT NULL`

func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	r := &warehouses.Replacement{}
	for _, c := range t.Columns {
		if c.HasDefault && c.Generator == "" {
			r.Lost = append(r.Lost, "default of "+c.Name)
		}
		if c.NotNull {
			r.Lost = append(r.Lost, "NOT NULL of "+c.Name)
		}
	}
	of := []any{t.Name.Database, t.Name.Schema, t.Name.Table}
	lost, err := s.Rows(ctx, lostQuery, math.MaxInt, of...)
	if err != nil {
		return nil, err
	}
	for _, l := range lost {
		r.Lost = append(r.Lost, l[0])
	}
	comment, err := s.Rows(ctx, commentQuery, 1, of...)
	if len(comment) > 0 {
		r.Carry = []warehouses.SQL{"COMMENT ON TABLE " + Dialect.Table(t.Name) + " IS " + Dialect.Text(comment[0][0])}
	}
	return r, err
}

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	var n int
	err := s.row(ctx, "SELECT count(*) FROM duckdb_schemas() WHERE database_name = $1 AND lower(schema_name) = lower($2)", name.Database, name.Schema).Scan(&n)
	return n > 0, s.failed(ctx, err)
}

func (s *session) Begin(ctx context.Context) error {
	_, err := s.exec(ctx, "BEGIN TRANSACTION")
	s.open = err == nil
	return s.failed(ctx, err)
}

// Commit must follow only statements that all succeeded: DuckDB answers a COMMIT after a runtime error with success,
// although it has rolled back.
func (s *session) Commit(ctx context.Context) error {
	_, err := s.exec(ctx, "COMMIT")
	s.open = err != nil
	return s.failed(ctx, err)
}

func (s *session) Rollback() error {
	if !s.open {
		return nil
	}
	s.open = false
	_, err := s.exec(context.Background(), "ROLLBACK")
	var e *duckdb.Error
	if errors.As(err, &e) && e.Type == duckdb.ErrorTypeTransaction {
		return nil // a failed COMMIT has ended the transaction already
	}
	return err
}

func (s *session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	res, err := s.exec(ctx, statement)
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	if !countsRows.MatchString(string(statement)) {
		return -1, nil
	}
	n, err := res.RowsAffected()
	return n, err
}

var countsRows = regexp.MustCompile(`^(INSERT|UPDATE|DELETE)\s`)

func (s *session) Int(ctx context.Context, query warehouses.SQL) (int64, error) {
	var v any
	if err := s.row(ctx, query).Scan(&v); err != nil {
		return 0, s.failed(ctx, err)
	}
	if v == nil {
		return 0, nil
	}
	if n, ok := v.(*big.Int); ok { // sum() is a HUGEINT
		return n.Int64(), nil
	}
	if n := reflect.ValueOf(v); n.CanInt() {
		return n.Int(), nil
	}
	return 0, fmt.Errorf("the query returned %T, not a number", v)
}

func (s *session) Rows(ctx context.Context, query warehouses.SQL, limit int, args ...any) ([][]string, error) {
	rows, err := s.conn.QueryContext(ctx, warehouses.Marked(ctx, query), args...)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var out [][]string
	for rows.Next() && len(out) < limit {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		texts := make([]string, len(columns))
		for i, v := range values {
			texts[i] = valueText(v, columns[i].DatabaseTypeName())
		}
		out = append(out, texts)
	}
	return out, s.failed(ctx, rows.Err())
}

func valueText(v any, typ string) string {
	instant, ok := v.(time.Time)
	switch {
	case v == nil:
		return "NULL"
	case ok && typ == "DATE":
		return instant.Format(time.DateOnly)
	case ok:
		return instant.Format("2006-01-02 15:04:05.999999")
	}
	return fmt.Sprint(v)
}

func (s *session) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	err := errors.Join(s.Rollback(), s.conn.Close())
	s.w.release()
	return err
}

// failed turns a driver's error into one with a code. DuckDB's text begins with its class of error.
func (s *session) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fault.New(fault.TaskCancelled, "%s: %w", firstLine(err), context.Cause(ctx))
	}
	e := &fault.Error{Code: fault.StatementFailed, Message: firstLine(err), Hint: suggestion(err), Err: err}
	var d *duckdb.Error
	if errors.As(err, &d) && d.Type == duckdb.ErrorTypeTransaction {
		e.Code, e.Retryable = fault.WriteConflict, true
	}
	return e
}

// suggestion is what DuckDB proposes below its message, "" when it proposes nothing.
func suggestion(err error) string {
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "Did you mean "); ok {
			return "did you mean " + rest
		}
		if rest, ok := strings.CutPrefix(line, "Candidate bindings: "); ok {
			return "there are " + rest
		}
	}
	return ""
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSpace(line)
}
