package warehouses

import "context"

// Warehouse is the one configured warehouse, shared by all tasks of the process.
type Warehouse interface {
	Dialect() *Dialect
	// Facts connects once to learn them, then remembers.
	Facts(ctx context.Context) (Facts, error)
	// Session opens a connection of its own in UTC, waiting while another process has the warehouse to itself. An
	// unreachable warehouse is a *fault.Error with code WAREHOUSE_UNREACHABLE or WAREHOUSE_LOCKED.
	Session(ctx context.Context) (Session, error)
	Close() error
}

// FactsOf is a warehouse's facts: those that are known, or what a session of it learns.
func FactsOf(ctx context.Context, w Warehouse, known *Facts) (Facts, error) {
	if known != nil {
		return *known, nil
	}
	s, err := w.Session(ctx)
	if err != nil {
		return Facts{}, err
	}
	defer func() { _ = s.Close() }()
	return s.Facts(), nil
}

// Facts are what the server says of itself and of the session.
type Facts struct {
	Identity string // the same for every address of one database, another for every other database
	Database string // default database of two-part names
	Schema   string // of names without one, where CREATE SCHEMA changes that; "" elsewhere
	User     string // session user, stamped as CREATED_BY and UPDATED_BY
	Version  string
}

// Session is one pinned connection. It never reconnects: a broken one fails whatever runs on it. After a failed
// statement inside a transaction only Rollback may follow. Errors of statements are *fault.Error with code
// STATEMENT_FAILED, WRITE_CONFLICT or WAREHOUSE_UNREACHABLE, their message beginning with the server's class of error.
type Session interface {
	Facts() Facts

	// Confirm lets the warehouse's own parser say that text is one read-only query; SELECT_NOT_READ_ONLY when not.
	Confirm(ctx context.Context, text SQL) error
	// Describe tells columns and complete types of a query without running it.
	Describe(ctx context.Context, query SQL) ([]Column, error)
	// Table inspects a relation, nil when there is none of this name.
	Table(ctx context.Context, name QualifiedName) (*Table, error)
	// Replacement inspects what stands in the way of replacing a table.
	Replacement(ctx context.Context, table *Table) (*Replacement, error)
	// SchemaExists tells whether a table could be created under this name.
	SchemaExists(ctx context.Context, name QualifiedName) (bool, error)

	Begin(ctx context.Context) error
	// Commit ends the transaction. A connection lost meanwhile is COMMIT_UNKNOWN.
	Commit(ctx context.Context) error
	// Rollback works on a fresh context of its own, also after cancellation.
	Rollback() error

	// Exec returns the number of rows the server reports, -1 when it reports none; it is for logs only.
	Exec(ctx context.Context, statement SQL) (int64, error)
	// Int runs a query that returns one row with one integer; NULL is 0.
	Int(ctx context.Context, query SQL) (int64, error)
	// Rows runs a query and returns at most limit rows as text, NULL as "NULL".
	Rows(ctx context.Context, query SQL, limit int, args ...any) ([][]string, error)

	// Close gives the connection back; an open transaction is rolled back.
	Close() error
}
