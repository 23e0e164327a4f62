package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/etl-craft/etl-craft/warehouses"
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
	for _, server := range farServers {
		if server.Name == args[0] {
			w, _, err := server.Open(args[1])
			if err != nil {
				return err
			}
			err = executeFar(w, split(string(text)))
			fmt.Println("done")
			ended := make(chan error, 1)
			go func() { ended <- w.Close() }()
			select {
			case closed := <-ended:
				return errors.Join(err, closed)
			case <-time.After(farewell):
				return err
			}
		}
	}
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	return errors.Join(execute(db, split(string(text))), db.Close())
}

// farewell is how long a server may take to end the session, of which the time is not measured.
const farewell = time.Second

// split takes statements apart, which each end with a semicolon at the end of a line.
func split(text string) (statements []string) {
	for s := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(s) != "" {
			statements = append(statements, s)
		}
	}
	return statements
}

// execute runs statements on one connection.
func execute(db *sql.DB, statements []string) error {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("%w in\n%s", err, s), conn.Close())
		}
	}
	return conn.Close()
}

// executeFar runs statements in one session of a warehouse package, which opens and ends transactions itself.
func executeFar(w warehouses.Warehouse, statements []string) error {
	ctx := context.Background()
	session, err := w.Session(ctx)
	if err != nil {
		return err
	}
	for _, s := range statements {
		switch {
		case s == "BEGIN":
			err = session.Begin(ctx)
		case s == "COMMIT":
			err = session.Commit(ctx)
		case strings.HasPrefix(s, "SELECT"):
			_, err = session.Int(ctx, warehouses.SQL(s))
		default:
			_, err = session.Exec(ctx, warehouses.SQL(s))
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%w in\n%s", err, s), session.Close())
		}
	}
	return session.Close()
}
