package duckdbiceberg

import (
	"context"
	"math"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
)

type session struct {
	*duckdb.Session
	w  *warehouse
	in *instance
}

// Commit makes one request to the catalog, tied to the snapshots that the transaction has read. DuckDB would repeat it when
// the answer is lost, and take the refusal of the second for that of the first. It is not interrupted either, as nobody
// would know what became of it; DuckDB's own timeout ends it.
func (s *session) Commit(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.retries(ctx, "SET GLOBAL http_retries = 0"); err != nil {
		return err
	}
	err := s.Session.Commit(ctx)
	if fault.Has(err, fault.WarehouseDown) && !neverSent(err.Error()) {
		fault.As(err).Code = fault.CommitUnknown
	}
	if again := s.retries(ctx, "RESET GLOBAL http_retries"); err == nil && again != nil {
		s.in.retired = true
	}
	return err
}

func (s *session) retries(ctx context.Context, statement warehouses.SQL) error {
	_, err := s.Conn.ExecContext(ctx, string(statement))
	return s.Failed(ctx, err)
}

// Table asks for a table only where its schema is: DuckDB would believe for good that a schema it has not found is not there.
func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	there, err := s.SchemaExists(ctx, name)
	if err != nil || !there {
		return nil, err
	}
	rows, err := s.Rows(ctx, "SELECT name, type FROM pragma_table_info("+Dialect.Text(string(qualified(name)))+")", math.MaxInt)
	if isCatalog(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &warehouses.Table{Name: name, Kind: "table", Format: warehouses.FormatIceberg}
	for _, r := range rows {
		t.Columns = append(t.Columns, warehouses.TableColumn{Column: warehouses.Column{Name: r[0], Type: Dialect.ParseType(r[1])}})
	}
	return t, nil
}

// qualified names a table with its catalog, so that nothing else is looked for.
func qualified(n warehouses.QualifiedName) warehouses.SQL {
	return Dialect.Ident(n.Database) + "." + Dialect.Ident(n.Schema) + "." + Dialect.Ident(n.Table)
}
