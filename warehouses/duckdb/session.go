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

// Session is one connection to an instance of DuckDB, whatever it keeps its tables in: all of a warehouses.Session but what
// it reads from a catalog.
type Session struct {
	Conn    *sql.Conn
	Learned warehouses.Facts
	// Classify gives an error that DuckDB reports its code, where that is not STATEMENT_FAILED.
	Classify func(from *duckdb.Error, to *fault.Error)
	Released func() // is called once when the connection has been given back

	open bool // a transaction
	done bool
}

// Facts implements warehouses.Session.
func (s *Session) Facts() warehouses.Facts { return s.Learned }

func (s *Session) exec(ctx context.Context, statement warehouses.SQL) (sql.Result, error) {
	return s.Conn.ExecContext(ctx, warehouses.Marked(ctx, statement))
}

func (s *Session) row(ctx context.Context, query warehouses.SQL, args ...any) *sql.Row {
	return s.Conn.QueryRowContext(ctx, warehouses.Marked(ctx, query), args...)
}

// Confirm uses DuckDB's own serializer of statements, which takes nothing but SELECTs and counts them.
func (s *Session) Confirm(ctx context.Context, text warehouses.SQL) error {
	var answer string
	query := "SELECT CAST(json_serialize_sql(" + Dialect.Text(string(text)) + ") AS VARCHAR)"
	if err := s.row(ctx, query).Scan(&answer); err != nil {
		return s.Failed(ctx, err)
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

// Describe implements warehouses.Session.
func (s *Session) Describe(ctx context.Context, query warehouses.SQL) ([]warehouses.Column, error) {
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
func (s *Session) markUntyped(ctx context.Context, query warehouses.SQL, columns []warehouses.Column) error {
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

// Begin implements warehouses.Session.
func (s *Session) Begin(ctx context.Context) error {
	_, err := s.exec(ctx, "BEGIN TRANSACTION")
	s.open = err == nil
	return s.Failed(ctx, err)
}

// Commit must follow only statements that all succeeded: DuckDB answers a COMMIT after a runtime error with success,
// although it has rolled back.
func (s *Session) Commit(ctx context.Context) error {
	_, err := s.exec(ctx, "COMMIT")
	s.open = err != nil
	return s.Failed(ctx, err)
}

// Rollback implements warehouses.Session.
func (s *Session) Rollback() error {
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

// Exec implements warehouses.Session.
func (s *Session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	res, err := s.exec(ctx, statement)
	if err != nil {
		return 0, s.Failed(ctx, err)
	}
	if !countsRows.MatchString(string(statement)) {
		return -1, nil
	}
	n, err := res.RowsAffected()
	return n, err
}

var countsRows = regexp.MustCompile(`^(INSERT|UPDATE|DELETE)\s`)

// Int implements warehouses.Session.
func (s *Session) Int(ctx context.Context, query warehouses.SQL) (int64, error) {
	var v any
	if err := s.row(ctx, query).Scan(&v); err != nil {
		return 0, s.Failed(ctx, err)
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

// Rows implements warehouses.Session.
func (s *Session) Rows(ctx context.Context, query warehouses.SQL, limit int, args ...any) ([][]string, error) {
	rows, err := s.Conn.QueryContext(ctx, warehouses.Marked(ctx, query), args...)
	if err != nil {
		return nil, s.Failed(ctx, err)
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
	return out, s.Failed(ctx, rows.Err())
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

// Close implements warehouses.Session.
func (s *Session) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	err := errors.Join(s.Rollback(), s.Conn.Close())
	s.Released()
	return err
}

// Failed turns a driver's error into one with a code. DuckDB's text begins with its class of error.
func (s *Session) Failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fault.New(fault.TaskCancelled, "%s: %w", firstLine(err), context.Cause(ctx))
	}
	e := &fault.Error{Code: fault.StatementFailed, Message: firstLine(err), Hint: suggestion(err), Err: err}
	var d *duckdb.Error
	if errors.As(err, &d) {
		s.Classify(d, e)
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
