package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// byHand runs the statements of a file: DRIVER ADDRESS FILE. Everything that touches a database does so in a process of
// its own, because a process that is started counts the memory of the one that starts it.
func byHand(args []string) error {
	if len(args) != 3 {
		return errors.New("hand DRIVER ADDRESS FILE")
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	return errors.Join(execute(db, string(text)), db.Close())
}

// execute runs statements that each end with a semicolon at the end of a line, on one connection.
func execute(db *sql.DB, statements string) error {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	for s := range strings.SplitSeq(statements, ";\n") {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("%w in\n%s", err, s), conn.Close())
		}
	}
	return conn.Close()
}
