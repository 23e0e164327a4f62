package duckdbiceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	driverduckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/duckdb"
)

func isCatalog(err error) bool {
	var e *driverduckdb.Error
	return errors.As(err, &e) && e.Type == driverduckdb.ErrorTypeCatalog
}

// SchemaExists reads the catalog's list of schemas.
func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	found, err := s.Rows(ctx, "SELECT schema_name FROM duckdb_schemas() WHERE lower(database_name) = lower($1) AND lower(schema_name) = lower($2)", 1, name.Database, name.Schema)
	return len(found) > 0, err
}

// tableMetadata is what is read of an Iceberg table's metadata.
type tableMetadata struct {
	Schemas []struct {
		ID     int `json:"schema-id"`
		Fields []struct {
			ID       int    `json:"id"`
			Name     string `json:"name"`
			Required bool   `json:"required"`
			Doc      string `json:"doc"`
		} `json:"fields"`
	} `json:"schemas"`
	CurrentSchema int `json:"current-schema-id"`
	Specs         []struct {
		ID     int      `json:"spec-id"`
		Fields []source `json:"fields"`
	} `json:"partition-specs"`
	DefaultSpec int `json:"default-spec-id"`
	Orders      []struct {
		ID     int      `json:"order-id"`
		Fields []source `json:"fields"`
	} `json:"sort-orders"`
	DefaultOrder int `json:"default-sort-order-id"`
}

// source is the column that a partition field or a sort field is made of.
type source struct {
	ID        int    `json:"source-id"`
	Transform string `json:"transform"`
}

// Replacement finds what the columns of a table have besides values. The table itself stays, with its properties, history
// and grants.
func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	m, err := s.metadata(ctx, t.Name)
	if err != nil || m == nil {
		return &warehouses.Replacement{}, err
	}
	r := &warehouses.Replacement{}
	for _, schema := range m.Schemas {
		if schema.ID != m.CurrentSchema {
			continue
		}
		for _, f := range schema.Fields {
			if f.Required {
				r.Bound = append(r.Bound, warehouses.Bound{Column: f.Name, What: warehouses.NotNull})
			}
			if f.Doc != "" {
				r.Bound = append(r.Bound, warehouses.Bound{Column: f.Name, What: "the comment"})
			}
			if from := m.partitions(f.ID); from != "" {
				r.Bound = append(r.Bound, warehouses.Bound{Column: f.Name, What: "the partition field " + from, Keeps: true})
			}
			if m.sorts(f.ID) {
				r.Bound = append(r.Bound, warehouses.Bound{Column: f.Name, What: "the sort order", Keeps: true})
			}
		}
	}
	return r, nil
}

// partitions is the transform by which the table is partitioned by a column, "" when it is not.
func (m *tableMetadata) partitions(field int) string {
	for _, spec := range m.Specs {
		i := slices.IndexFunc(spec.Fields, func(f source) bool { return f.ID == field })
		if spec.ID == m.DefaultSpec && i >= 0 {
			return spec.Fields[i].Transform
		}
	}
	return ""
}

func (m *tableMetadata) sorts(field int) bool {
	for _, order := range m.Orders {
		if order.ID == m.DefaultOrder && slices.ContainsFunc(order.Fields, func(f source) bool { return f.ID == field }) {
			return true
		}
	}
	return false
}

// metadata reads a table's metadata from the catalog, nil when it has no such table: then the session's transaction has made
// it. That is asked on a connection of its own, because the error would end the transaction.
func (s *session) metadata(ctx context.Context, name warehouses.QualifiedName) (*tableMetadata, error) {
	conn, err := s.in.db.Conn(ctx)
	if err != nil {
		return nil, s.w.unreachable(ctx, err)
	}
	other := &session{w: s.w, in: s.in}
	other.Session = &duckdb.Session{Conn: conn, Classify: other.classify, Released: func() {}}
	defer func() { _ = other.Close() }()
	rows, err := other.Rows(ctx, "SELECT CAST(CAST(metadata AS JSON) AS VARCHAR) FROM iceberg_load_table_response("+qualified(name)+")", 1)
	if isCatalog(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &tableMetadata{}
	if err := json.Unmarshal([]byte(rows[0][0]), m); err != nil {
		return nil, fmt.Errorf("read the metadata of %s: %w", name, err)
	}
	return m, nil
}
