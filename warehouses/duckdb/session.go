package duckdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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

// Confirm uses DuckDB's own serializer of statements, which takes nothing but SELECTs and counts them.
func (s *session) Confirm(ctx context.Context, text warehouses.SQL) error {
	var answer string
	query := "SELECT CAST(json_serialize_sql(" + string(Dialect.Text(string(text))) + ") AS VARCHAR)"
	if err := s.conn.QueryRowContext(ctx, query).Scan(&answer); err != nil {
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
	rows, err := s.conn.QueryContext(ctx, "SELECT column_name, column_type FROM (DESCRIBE "+string(query)+"\n)")
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var columns []warehouses.Column
	for rows.Next() {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			return nil, err
		}
		columns = append(columns, warehouses.Column{Name: name, Type: parseType(typ)})
	}
	return columns, s.failed(ctx, rows.Err())
}

const inspectTable = `
SELECT kind, schema_name, table_name, coalesce(comment, ''), constrained
FROM (
  SELECT 'table' AS kind, schema_name, table_name, comment,
    has_primary_key OR index_count > 0 OR check_constraint_count > 0 AS constrained
  FROM duckdb_tables() WHERE database_name = $1
  UNION ALL
  SELECT 'view', schema_name, view_name, comment, false FROM duckdb_views() WHERE database_name = $1
)
WHERE lower(schema_name) = lower($2) AND lower(table_name) = lower($3)`

const inspectColumns = `
SELECT column_name, data_type, NOT is_nullable, coalesce(column_default, ''), coalesce(comment, '')
FROM duckdb_columns()
WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
ORDER BY column_index`

const inspectConstraints = `
SELECT 'index ' || index_name FROM duckdb_indexes() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
UNION ALL
SELECT 'constraint ' || constraint_text FROM duckdb_constraints()
WHERE database_name = $1 AND schema_name = $2 AND table_name = $3 AND constraint_type <> 'NOT NULL'`

var nextval = regexp.MustCompile(`^nextval\('(.+)'\)$`)

func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	t := &warehouses.Table{Name: name, Format: warehouses.FormatNative}
	constrained := false
	err := s.conn.QueryRowContext(ctx, inspectTable, name.Database, name.Schema, name.Table).Scan(&t.Kind, &t.Name.Schema, &t.Name.Table, &t.Comment, &constrained)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if err := s.columns(ctx, t); err != nil {
		return nil, err
	}
	if constrained {
		lost, err := s.Rows(ctx, inspectConstraints, 100, name.Database, t.Name.Schema, t.Name.Table)
		if err != nil {
			return nil, err
		}
		for _, l := range lost {
			t.Lost = append(t.Lost, l[0])
		}
	}
	if t.Comment != "" {
		t.Carry = append(t.Carry, "COMMENT ON TABLE "+Dialect.Table(t.Name)+" IS "+Dialect.Text(t.Comment))
	}
	return t, nil
}

func (s *session) columns(ctx context.Context, t *warehouses.Table) error {
	rows, err := s.conn.QueryContext(ctx, inspectColumns, t.Name.Database, t.Name.Schema, t.Name.Table)
	if err != nil {
		return s.failed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c warehouses.TableColumn
		var typ, fallback, comment string
		if err := rows.Scan(&c.Name, &typ, &c.NotNull, &fallback, &comment); err != nil {
			return err
		}
		c.Type, c.HasDefault = parseType(typ), fallback != ""
		if m := nextval.FindStringSubmatch(fallback); m != nil {
			c.Generator = warehouses.SQL(strings.ReplaceAll(m[1], "''", "'"))
		} else if fallback != "" {
			t.Lost = append(t.Lost, "default of "+c.Name)
		}
		if comment != "" {
			t.Lost = append(t.Lost, "comment of "+c.Name)
		}
		if c.NotNull {
			t.Lost = append(t.Lost, "NOT NULL of "+c.Name)
		}
		t.Columns = append(t.Columns, c)
	}
	return s.failed(ctx, rows.Err())
}

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	var n int
	err := s.conn.QueryRowContext(ctx, "SELECT count(*) FROM duckdb_schemas() WHERE database_name = $1 AND lower(schema_name) = lower($2)", name.Database, name.Schema).Scan(&n)
	return n > 0, s.failed(ctx, err)
}

func (s *session) Begin(ctx context.Context) error {
	_, err := s.conn.ExecContext(ctx, "BEGIN TRANSACTION")
	s.open = err == nil
	return s.failed(ctx, err)
}

// Commit must follow only statements that all succeeded: DuckDB answers a COMMIT after a runtime error with success,
// although it has rolled back.
func (s *session) Commit(ctx context.Context) error {
	_, err := s.conn.ExecContext(ctx, "COMMIT")
	s.open = err != nil
	return s.failed(ctx, err)
}

func (s *session) Rollback() error {
	if !s.open {
		return nil
	}
	s.open = false
	_, err := s.conn.ExecContext(context.Background(), "ROLLBACK")
	var e *duckdb.Error
	if errors.As(err, &e) && e.Type == duckdb.ErrorTypeTransaction {
		return nil // a failed COMMIT has ended the transaction already
	}
	return err
}

func (s *session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	res, err := s.conn.ExecContext(ctx, string(statement))
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
	if err := s.conn.QueryRowContext(ctx, string(query)).Scan(&v); err != nil {
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
	rows, err := s.conn.QueryContext(ctx, string(query), args...)
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
	e := &fault.Error{Code: fault.StatementFailed, Message: firstLine(err), Err: err}
	var d *duckdb.Error
	if errors.As(err, &d) && d.Type == duckdb.ErrorTypeTransaction {
		e.Code, e.Retryable = fault.WriteConflict, true
	}
	return e
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSpace(line)
}
