package sqlscan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// forPostgres runs test on each server of ETL_CRAFT_TEST_POSTGRES, in a schema of its own with the corpus' tables.
func forPostgres(t *testing.T, test func(*testing.T, *pgx.Conn)) {
	dsns := os.Getenv("ETL_CRAFT_TEST_POSTGRES")
	if dsns == "" {
		t.Skip("ETL_CRAFT_TEST_POSTGRES is not set")
	}
	for i, dsn := range strings.Split(dsns, ",") {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			ctx := context.Background()
			conn, err := pgx.Connect(ctx, strings.TrimSpace(dsn))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			schema := fmt.Sprintf("sqlscan_%d_%d", os.Getpid(), conn.PgConn().PID())
			setup := "CREATE SCHEMA " + schema + "; SET search_path = " + schema + ", pg_catalog;" +
				"CREATE TABLE t(a int, b text, s int); SET standard_conforming_strings = on"
			if _, err := conn.Exec(ctx, setup); err != nil {
				t.Fatal(err)
			}
			defer conn.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
			test(t, conn)
		})
	}
}

// What PostgreSQL takes a text for.
type answer int

const (
	query       answer = iota // one query that a cursor can read; names may be unknown
	notOneQuery               // a statement that writes, or several, or no query at all
	syntaxError
)

// ask asks the server in a transaction that it rolls back.
func ask(t *testing.T, conn *pgx.Conn, text string) (answer, error) {
	t.Helper()
	ctx := context.Background()
	run := func(sql string) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(ctx)
		// The extended protocol, which the session would use, refuses several statements.
		_, err = conn.PgConn().Prepare(ctx, "", sql, nil)
		if err == nil {
			_, err = conn.Exec(ctx, sql, pgx.QueryExecModeExec)
		}
		return err
	}
	err := run("DECLARE c NO SCROLL CURSOR FOR " + text)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return query, nil
	case !errors.As(err, &pg):
		t.Fatalf("%q: %v", text, err)
	case strings.Contains(pg.Message, "multiple commands"), strings.Contains(pg.Message, "data-modifying"),
		strings.Contains(pg.Message, "INTO is not allowed"):
		return notOneQuery, err
	case pg.Code == "22025", pg.Code == "22021": // an escape in a string that the lexer refuses
		return syntaxError, err
	case pg.Code != "42601":
		return query, err
	}
	// A syntax error inside DECLARE can be a good statement of another kind.
	_, prepared := conn.PgConn().Prepare(ctx, "", text, nil)
	if errors.As(prepared, &pg) && pg.Code == "42601" && !strings.Contains(pg.Message, "multiple commands") {
		return syntaxError, err
	}
	return notOneQuery, err
}

func TestPostgresAgrees(t *testing.T) {
	forPostgres(t, func(t *testing.T, conn *pgx.Conn) {
		for _, c := range corpus {
			if c.postgres == refused {
				continue
			}
			s, err := Parse(c.text, PostgreSQL)
			if err != nil {
				continue // TestParse says so
			}
			got, err := ask(t, conn, s.Body())
			if c.postgres == read && got != query || c.postgres == broken && got != syntaxError {
				t.Errorf("%q: answer %d, %v", c.text, got, err)
			}
		}
	})
}

func TestPostgresKeywords(t *testing.T) {
	forPostgres(t, func(t *testing.T, conn *pgx.Conn) {
		for text := range keywordTexts() {
			got, answer := ask(t, conn, text)
			_, err := Parse(text, PostgreSQL)
			switch {
			case err == nil && got == notOneQuery:
				t.Errorf("%q is accepted; PostgreSQL: %v", text, answer)
			case err != nil && got == query && !deliberate(err):
				t.Errorf("%q is refused (%v), PostgreSQL takes it: %v", text, err, answer)
			}
		}
	})
}

func TestPostgresSoup(t *testing.T) {
	forPostgres(t, func(t *testing.T, conn *pgx.Conn) {
		var old bool // PostgreSQL 14 reads 1_0$a$ as the number 1 and a name: refusing it is safe, and right from 15 on
		if err := conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int < 150000").Scan(&old); err != nil {
			t.Fatal(err)
		}
		for text := range soup(soupSize) {
			s, err := Parse(text, PostgreSQL)
			if err != nil {
				if got, answer := ask(t, conn, text); got == query && !deliberate(err) && !old {
					t.Errorf("%q is refused (%v), PostgreSQL takes it: %v", text, err, answer)
				}
				continue
			}
			if s.CheckTokens(nil) != nil {
				continue
			}
			if got, answer := ask(t, conn, s.Body()); got == notOneQuery {
				t.Errorf("%q is accepted; PostgreSQL: %v", text, answer)
			}
		}
	})
}
