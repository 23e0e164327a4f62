package snowflake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/snowflakedb/gosnowflake"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// session is one session of the account, with temporary tables of its own.
type session struct {
	w     *warehouse
	db    *sql.DB
	conn  *sql.Conn
	facts warehouses.Facts
	id    string // as the server numbers sessions
	lost  bool   // an answer did not come, so that nothing more is sent
	done  bool
}

func (s *session) Facts() warehouses.Facts { return s.facts }

const factsQuery = `
SELECT current_session(), current_organization_name(), current_account_name(), current_database(), current_schema(), current_user(), current_version()`

// learn reads what the server says of the session. Two names of one account give one identity; databases are in the names of
// tables.
func (s *session) learn(ctx context.Context) error {
	rows, err := s.Rows(ctx, factsQuery, 1)
	if err != nil {
		return err
	}
	r := rows[0]
	s.id = r[0]
	s.facts = warehouses.Facts{Identity: "snowflake:" + r[1] + "-" + r[2], Database: r[3], Schema: r[4], User: r[5], Version: r[6]}
	switch {
	case r[3] == "NULL":
		return fault.New(fault.ConfigInvalid, "the database %s does not exist, or the role may not use it", s.w.config.Database).WithHint("check warehouse.database and warehouse.role")
	case r[4] == "NULL":
		return fault.New(fault.ConfigInvalid, "the session has no schema, in which scratch tables could lie").WithHint("set warehouse.schema to one that the role may use")
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.facts = &s.facts
	return nil
}

// tagged lets the query history tell why a statement ran, since it drops comments in front.
func tagged(ctx context.Context) context.Context {
	if mark := warehouses.Mark(ctx); mark != "" {
		return gosnowflake.WithQueryTag(ctx, mark)
	}
	return ctx
}

var errLost = errors.New("an earlier statement of the session got no answer")

func (s *session) query(ctx context.Context, query warehouses.SQL, args ...any) (*sql.Rows, error) {
	if s.lost {
		return nil, errLost
	}
	return s.conn.QueryContext(tagged(ctx), warehouses.Marked(ctx, query), args...)
}

// Begin, Commit and Rollback do nothing: each statement commits alone.
func (s *session) Begin(context.Context) error { return nil }

func (s *session) Commit(context.Context) error { return nil }

func (s *session) Rollback() error { return nil }

func (s *session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	if s.lost {
		return 0, s.failed(ctx, errLost)
	}
	res, err := s.conn.ExecContext(tagged(ctx), warehouses.Marked(ctx, statement))
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	n, err := res.RowsAffected()
	if err != nil { // it was no DML
		return -1, nil
	}
	return n, nil
}

func (s *session) Int(ctx context.Context, query warehouses.SQL) (int64, error) {
	rows, err := s.query(ctx, query)
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var v any
	if !rows.Next() {
		return 0, errors.Join(errors.New("the query returned no row"), s.failed(ctx, rows.Err()))
	}
	if err := rows.Scan(&v); err != nil {
		return 0, err
	}
	if v == nil {
		return 0, nil
	}
	if n := reflect.ValueOf(v); n.CanInt() {
		return n.Int(), nil
	}
	return strconv.ParseInt(fmt.Sprint(v), 10, 64)
}

func (s *session) Rows(ctx context.Context, query warehouses.SQL, limit int, args ...any) ([][]string, error) {
	_, found, err := s.read(ctx, query, limit, args...)
	return found, err
}

// named is Rows with the columns' names, for commands that return more of them from one release to the next.
func (s *session) named(ctx context.Context, command warehouses.SQL, limit int) ([]map[string]string, error) {
	columns, found, err := s.read(ctx, command, limit)
	var out []map[string]string
	for _, r := range found {
		row := map[string]string{}
		for i, c := range columns {
			row[strings.ToLower(c)] = r[i]
		}
		out = append(out, row)
	}
	return out, err
}

func (s *session) read(ctx context.Context, query warehouses.SQL, limit int, args ...any) (columns []string, out [][]string, err error) {
	rows, err := s.query(ctx, query, args...)
	if err != nil {
		return nil, nil, s.failed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, nil, err
	}
	for _, t := range types {
		columns = append(columns, t.Name())
	}
	for len(out) < limit && rows.Next() {
		values, into := make([]any, len(types)), make([]any, len(types))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, nil, err
		}
		texts := make([]string, len(types))
		for i, v := range values {
			texts[i] = valueText(v, types[i].DatabaseTypeName())
		}
		out = append(out, texts)
	}
	return columns, out, s.failed(ctx, rows.Err())
}

func valueText(v any, typ string) string {
	instant, ok := v.(time.Time)
	switch {
	case v == nil:
		return "NULL"
	case ok && typ == "DATE":
		return instant.Format(time.DateOnly)
	case ok && typ == "TIME":
		return instant.Format("15:04:05.999999999")
	case ok:
		return instant.UTC().Format("2006-01-02 15:04:05.999999999")
	}
	return fmt.Sprint(v)
}

func (s *session) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	return errors.Join(s.conn.Close(), s.db.Close())
}
