package migrations

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/pressly/goose/v3/database"

	"github.com/etl-craft/etl-craft/engine/store"
)

const (
	ledgerTable = `
CREATE TABLE IF NOT EXISTS {{schema}}.SCHEMA_MIGRATIONS (
    SOURCE     VARCHAR(7)   NOT NULL CHECK (SOURCE IN ('ENGINE', 'PROJECT')),
    VERSION    BIGINT       NOT NULL CHECK (VERSION > 0),
    FILE_NAME  VARCHAR(255) NOT NULL,
    CHECKSUM   VARCHAR(64)  NOT NULL CHECK (length(CHECKSUM) = 64),
    APPLIED_AT {{timestamp}} NOT NULL,
    PRIMARY KEY (SOURCE, VERSION)
)`
	ledgerInsert = `
INSERT INTO {{schema}}.SCHEMA_MIGRATIONS (SOURCE, VERSION, FILE_NAME, CHECKSUM, APPLIED_AT)
VALUES ($1, $2, $3, $4, {{now}})`
	ledgerFind = `SELECT COUNT(*) FROM {{schema}}.SCHEMA_MIGRATIONS WHERE SOURCE = $1 AND VERSION = $2`
	ledgerAll  = `SELECT SOURCE, VERSION, FILE_NAME, CHECKSUM FROM {{schema}}.SCHEMA_MIGRATIONS ORDER BY SOURCE, VERSION`
)

// ledgerExists asks the catalog, because a failed statement would end a transaction of PostgreSQL.
var ledgerExists = map[store.Dialect]string{
	store.SQLite:   `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'SCHEMA_MIGRATIONS'`,
	store.Postgres: `SELECT COUNT(to_regclass('{{schema}}.SCHEMA_MIGRATIONS'))`,
}

// ledger is SCHEMA_MIGRATIONS as goose sees it: one stream at a time.
type ledger struct {
	dialect store.Dialect
	schema  string
	files   []file
	stream  string
}

var (
	_ database.StoreExtender = (*ledger)(nil)

	errNotUsed = errors.New("not used")
)

func (l *ledger) sql(statement string) string {
	timestamp, now := "TEXT", "strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'"
	if l.dialect == store.Postgres {
		timestamp, now = "timestamptz", "statement_timestamp()"
	}
	return strings.NewReplacer("{{schema}}", l.schema, "{{timestamp}}", timestamp, "{{now}}", now).Replace(statement)
}

// applied reads both streams.
func (l *ledger) applied(ctx context.Context, db *sql.DB) ([]file, error) {
	exists, err := l.exists(db.QueryRowContext(ctx, l.sql(ledgerExists[l.dialect])))
	if err != nil || !exists {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, l.sql(ledgerAll))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var applied []file
	for rows.Next() {
		var f file
		if err := rows.Scan(&f.stream, &f.version, &f.name, &f.checksum); err != nil {
			return nil, err
		}
		applied = append(applied, f)
	}
	return applied, rows.Err()
}

func (l *ledger) exists(row *sql.Row) (bool, error) {
	var n int
	err := row.Scan(&n)
	return n > 0, err
}

func (l *ledger) Tablename() string { return "SCHEMA_MIGRATIONS" }

func (l *ledger) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	return l.exists(db.QueryRowContext(ctx, l.sql(ledgerExists[l.dialect])))
}

func (l *ledger) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, l.sql(ledgerTable))
	return err
}

// Insert is the last statement of a migration's transaction.
func (l *ledger) Insert(ctx context.Context, db database.DBTxConn, request database.InsertRequest) error {
	for _, f := range l.files {
		if f.stream != l.stream || f.version != request.Version {
			continue
		}
		if _, err := db.ExecContext(ctx, l.sql(ledgerInsert), f.stream, f.version, f.name, f.checksum); err != nil {
			return err
		}
		return endSession(ctx, db, l.dialect)
	}
	return nil // goose's own version 0
}

func (l *ledger) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	exists, err := l.exists(db.QueryRowContext(ctx, l.sql(ledgerFind), l.stream, version))
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, database.ErrVersionNotFound
	}
	return &database.GetMigrationResult{IsApplied: true}, nil
}

// The rest of goose's interface serves commands that are not offered.

func (l *ledger) Delete(context.Context, database.DBTxConn, int64) error { return errNotUsed }

func (l *ledger) GetLatestVersion(context.Context, database.DBTxConn) (int64, error) {
	return 0, errNotUsed
}

func (l *ledger) ListMigrations(context.Context, database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	return nil, errNotUsed
}
