package databricks

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/databricks/databricks-sql-go/driverctx"

	"github.com/etl-craft/etl-craft/warehouses"
)

// patience is how long the server may take to say under which number a statement runs, before a request to cancel it is
// given up.
const patience = 30 * time.Second

// session is one connection.
type session struct {
	conn    *sql.Conn
	facts   warehouses.Facts
	spoiled bool // the connection serves no other session
	lost    bool // a statement was cancelled that may still run
	done    bool
}

func (s *session) Facts() warehouses.Facts { return s.facts }

// query sends one statement and hands its rows to read.
//
// Until the server has given the statement a number, it cannot be cancelled: a driver whose context ended then would leave
// it running. So its context ends only afterwards, and then the driver asks the server to cancel and waits for the answer.
func (s *session) query(ctx context.Context, statement warehouses.SQL, read func(*sql.Rows) error) error {
	if err := ctx.Err(); err != nil {
		return s.failed(ctx, err)
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	numbered, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inner = driverctx.NewContextWithQueryIdCallback(inner, func(id string) {
		if id != "" {
			once.Do(func() { close(numbered) })
		}
	})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		select {
		case <-ended:
		case <-numbered:
		case <-time.After(patience):
			s.lost = true
		}
		cancel()
	})
	rows, err := s.conn.QueryContext(inner, warehouses.Marked(ctx, statement))
	if err == nil {
		err = errors.Join(read(rows), rows.Err())
		_ = rows.Close() // a result that has been read needs no end
	}
	close(ended)
	watch.Wait()
	if err != nil && ctx.Err() != nil {
		s.spoiled = true // its end ends in the server whatever is left of the statement
	}
	return s.failed(ctx, err)
}

func (s *session) Begin(context.Context) error  { return nil }
func (s *session) Commit(context.Context) error { return nil }
func (s *session) Rollback() error              { return nil }

// Exec takes the number of rows from the answer of the statement, since the driver's own is 0 when the server tells none.
func (s *session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	changed := int64(-1)
	err := s.query(ctx, statement, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil || len(columns) == 0 || columns[0] != "num_affected_rows" || !rows.Next() {
			return err
		}
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		into[0] = &changed
		for i := 1; i < len(into); i++ {
			into[i] = &values[i]
		}
		return rows.Scan(into...)
	})
	return changed, err
}

func (s *session) Int(ctx context.Context, query warehouses.SQL) (int64, error) {
	rows, err := s.Rows(ctx, query, 2)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, errors.New("the query did not return one number")
	}
	if rows[0][0] == "NULL" {
		return 0, nil
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

// Rows of SHOW TABLES are the tables' names alone, without schema and kind.
func (s *session) Rows(ctx context.Context, query warehouses.SQL, limit int, args ...any) ([][]string, error) {
	if len(args) > 0 {
		return nil, errors.New("a query for Databricks has arguments")
	}
	var out [][]string
	err := s.query(ctx, query, func(rows *sql.Rows) error {
		columns, err := rows.ColumnTypes()
		if err != nil {
			return err
		}
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for len(out) < limit && rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			texts := make([]string, len(columns))
			for i, v := range values {
				texts[i] = valueText(v, columns[i].DatabaseTypeName())
			}
			out = append(out, texts)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(string(query), "SHOW TABLES") {
		for i, r := range out {
			out[i] = r[1:2]
		}
	}
	return out, nil
}

func valueText(v any, typ string) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		if typ == "DATE" {
			return v.Format(time.DateOnly)
		}
		return v.UTC().Format("2006-01-02 15:04:05.999999")
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	}
	return fmt.Sprint(v)
}

// Close keeps the connection for another session, unless something went wrong with it.
func (s *session) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	if s.spoiled {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	if err := s.conn.Close(); !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return nil
}

func isBadConn(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}
