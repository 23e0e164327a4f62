package trino

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/trinodb/trino-go-client/trino"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// session is one pinned connection. Each statement commits alone.
type session struct {
	w     *warehouse
	conn  *sql.Conn
	facts warehouses.Facts
	done  bool
}

func (s *session) Facts() warehouses.Facts { return s.facts }

// Begin, Commit and Rollback do nothing, because Trino's Iceberg connector writes in autocommit only.
func (s *session) Begin(context.Context) error  { return nil }
func (s *session) Commit(context.Context) error { return nil }
func (s *session) Rollback() error              { return nil }

// running keeps the id that the server gave a statement.
type running struct{ id atomic.Value }

// Update implements client.ProgressUpdater.
func (r *running) Update(p client.QueryProgressInfo) { r.id.Store(p.QueryId) }

// args are those of the driver that make it tell the statement's id.
func (r *running) args() []any {
	return []any{sql.Named("X-Trino-Progress-Callback", r), sql.Named("X-Trino-Progress-Callback-Period", time.Second)}
}

const (
	// patience is how long a cancelled statement may take to end in the server.
	patience = 30 * time.Second
	insist   = 100 * time.Millisecond
)

// ended waits until a statement whose context is over has ended in the server too, which the driver has asked to cancel it.
func (s *session) ended(r *running) error {
	id, _ := r.id.Load().(string)
	if id == "" {
		return nil // it never began
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	query := "SELECT count(*) FROM system.runtime.queries WHERE query_id = " + string(Dialect.Text(id)) + " AND state NOT IN ('FINISHED', 'FAILED')"
	for {
		var n int64
		if err := s.w.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			return fmt.Errorf("whether query %s has ended in Trino is not known: %s", id, reason(err))
		}
		if n == 0 {
			return nil
		}
		select {
		case <-time.After(insist):
		case <-ctx.Done():
			return fmt.Errorf("query %s still runs in Trino", id)
		}
	}
}

// over is failed, after the server is done with the statement.
func (s *session) over(ctx context.Context, r *running, err error) error {
	if err == nil || ctx.Err() == nil {
		return s.failed(ctx, err)
	}
	e := fault.As(s.failed(ctx, err))
	if still := s.ended(r); still != nil {
		e.Message += "; " + still.Error()
	}
	return e
}

var countsRows = regexp.MustCompile(`^(INSERT|UPDATE|DELETE|MERGE)\s|^CREATE (OR REPLACE )?TABLE [^(]* AS\s`)

func (s *session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	var r running
	res, err := s.conn.ExecContext(ctx, warehouses.Marked(ctx, statement), r.args()...)
	if err != nil {
		return 0, s.over(ctx, &r, err)
	}
	if !countsRows.MatchString(string(statement)) {
		return -1, nil
	}
	return res.RowsAffected()
}

func (s *session) Int(ctx context.Context, query warehouses.SQL) (int64, error) {
	rows, err := s.Rows(ctx, query, 1)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, fmt.Errorf("the query returned %d row(s), not one number", len(rows))
	}
	if rows[0][0] == "NULL" {
		return 0, nil
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

func (s *session) Rows(ctx context.Context, query warehouses.SQL, limit int, args ...any) ([][]string, error) {
	var r running
	rows, err := s.conn.QueryContext(ctx, warehouses.Marked(ctx, query), append(r.args(), args...)...)
	if err != nil {
		return nil, s.over(ctx, &r, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, s.over(ctx, &r, err)
	}
	var out [][]string
	for len(out) < limit && rows.Next() {
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
	return out, s.over(ctx, &r, rows.Err())
}

func valueText(v any, typ string) string {
	instant, ok := v.(time.Time)
	switch {
	case v == nil:
		return "NULL"
	case ok && typ == "DATE":
		return instant.Format(time.DateOnly)
	case ok:
		return instant.UTC().Format("2006-01-02 15:04:05.999999")
	}
	return fmt.Sprint(v)
}

func (s *session) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	return s.conn.Close()
}

// typeText is a column's type as information_schema would print it.
func typeText(c *sql.ColumnType) string {
	name := strings.ToLower(c.DatabaseTypeName())
	switch base, zone, _ := strings.Cut(name, " "); base {
	case "varchar", "char":
		if n, ok := c.Length(); ok && n < unbounded {
			return fmt.Sprintf("%s(%d)", name, n)
		}
	case "decimal":
		if p, scale, ok := c.DecimalSize(); ok {
			return fmt.Sprintf("decimal(%d,%d)", p, scale)
		}
	case "timestamp", "time":
		if p, _, ok := c.DecimalSize(); ok {
			return strings.TrimSpace(fmt.Sprintf("%s(%d) %s", base, p, zone))
		}
	}
	return name
}

// unbounded is the length of a varchar without one.
const unbounded = 2147483646
