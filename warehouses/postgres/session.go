package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// session is one connection. Statements go through the extended protocol, which takes one statement at a time.
type session struct {
	w       *warehouse
	conn    *pgconn.PgConn
	facts   warehouses.Facts
	spoiled bool // a statement failed, so the connection serves no other session
}

func (s *session) Facts() warehouses.Facts { return s.facts }

func (s *session) inTransaction() bool { return !s.conn.IsClosed() && s.conn.TxStatus() != 'I' }

// send starts one statement; its arguments go as text.
func (s *session) send(ctx context.Context, statement string, args ...any) *pgconn.ResultReader {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = fmt.Append(nil, a)
	}
	return s.conn.ExecParams(ctx, warehouses.Marked(ctx, warehouses.SQL(statement)), values, nil, nil, nil)
}

// query returns all rows as text, NULL as "".
func (s *session) query(ctx context.Context, query string, args ...any) ([][]string, error) {
	res := s.send(ctx, query, args...).Read()
	if res.Err != nil {
		return nil, s.failed(ctx, res.Err)
	}
	rows := make([][]string, len(res.Rows))
	for i, r := range res.Rows {
		for _, v := range r {
			rows[i] = append(rows[i], string(v))
		}
	}
	return rows, nil
}

func (s *session) Begin(ctx context.Context) error {
	_, err := s.send(ctx, "BEGIN").Close()
	return s.failed(ctx, err)
}

func (s *session) Commit(ctx context.Context) error {
	tag, err := s.send(ctx, "COMMIT").Close()
	if err == nil {
		if tag.String() == "ROLLBACK" {
			return fault.New(fault.StatementFailed, "the transaction was rolled back, because a statement in it had failed")
		}
		return nil
	}
	// An ERROR answers that nothing was committed. What is worse than an ERROR ends the session and may come after the
	// commit, as a lost connection may.
	e := pgError(err)
	if e != nil && e.SeverityUnlocalized == "ERROR" || pgconn.SafeToRetry(err) {
		return s.failed(ctx, err)
	}
	return fault.New(fault.CommitUnknown, "the connection was lost during COMMIT: %w", err)
}

func (s *session) Rollback() error {
	for s.inTransaction() {
		err := s.end("ROLLBACK")
		if e := pgError(err); e != nil && e.Code == queryCanceled {
			continue // the request to cancel the statement before came late
		}
		return err
	}
	return nil
}

// end runs what ends a transaction or an inspection, whatever became of the caller's context.
func (s *session) end(statements string) error {
	if s.conn.IsClosed() {
		return nil // the server ends what the connection had open
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.failed(ctx, s.conn.Exec(ctx, statements).Close())
}

func (s *session) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	tag, err := s.send(ctx, string(statement)).Close()
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	creates := strings.HasPrefix(string(statement), "CREATE") && tag.Select() // CREATE TABLE AS
	if tag.Insert() || tag.Update() || tag.Delete() || creates {
		return tag.RowsAffected(), nil
	}
	return -1, nil
}

func (s *session) Int(ctx context.Context, query warehouses.SQL) (int64, error) {
	rows, err := s.query(ctx, string(query))
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, errors.New("the query did not return one number")
	}
	if rows[0][0] == "" {
		return 0, nil
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

func (s *session) Rows(ctx context.Context, query warehouses.SQL, limit int, args ...any) ([][]string, error) {
	r := s.send(ctx, string(query), args...)
	var out [][]string
	for len(out) < limit && r.NextRow() {
		var texts []string
		for _, v := range r.Values() {
			if v == nil {
				v = []byte("NULL")
			}
			texts = append(texts, string(v))
		}
		out = append(out, texts)
	}
	if _, err := r.Close(); err != nil {
		return nil, s.failed(ctx, err)
	}
	return out, nil
}

func (s *session) Close() error {
	if s.conn.IsClosed() {
		return nil
	}
	rollback := s.Rollback()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !s.spoiled && s.conn.Exec(ctx, "DISCARD ALL").Close() == nil && s.w.keep(s.conn) {
		return rollback
	}
	return errors.Join(rollback, s.conn.Close(ctx))
}
