package duckdb

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// session is one connection to the file.
type session struct{ *Session }

// classify: transactions of one file collide when they change the same rows or catalog entries.
func classify(from *duckdb.Error, to *fault.Error) {
	if from.Type == duckdb.ErrorTypeTransaction {
		to.Code, to.Retryable = fault.WriteConflict, true
	}
}

var nextval = regexp.MustCompile(`^nextval\('(.+)'\)$`)

// Table asks for the one table. The catalog's table functions would list every column of every database first.
func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	t := &warehouses.Table{Name: name, Kind: "table", Format: warehouses.FormatNative}
	rows, err := s.Rows(ctx, "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info("+Dialect.Text(string(Dialect.Table(name)))+")", math.MaxInt)
	var missing *duckdb.Error
	if errors.As(err, &missing) && missing.Type == duckdb.ErrorTypeCatalog {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		c := warehouses.TableColumn{Column: warehouses.Column{Name: r[0], Type: parseType(r[1])}, NotNull: r[2] == "true", HasDefault: r[3] != "NULL"}
		if m := nextval.FindStringSubmatch(r[3]); m != nil {
			c.Generator = warehouses.SQL(strings.ReplaceAll(m[1], "''", "'"))
		}
		t.Columns = append(t.Columns, c)
	}
	definition, err := s.Rows(ctx, "SELECT sql FROM duckdb_tables() WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)", 1, name.Database, name.Schema, name.Table)
	if err != nil {
		return nil, err
	}
	if len(definition) == 0 {
		t.Kind = "view"
		return t, nil
	}
	readTraits(definition[0][0], t.Columns)
	return t, nil
}

const traits = `(?: COLLATE ([\w.]+))?( GENERATED ALWAYS AS)?`

// byBytes are the collations that tell all texts apart.
var byBytes = []string{"c", "posix", "binary"}

// readTraits finds in CREATE TABLE, as DuckDB prints it, what the catalog does not tell of columns, which are in their order.
func readTraits(definition string, columns []warehouses.TableColumn) {
	if !strings.Contains(definition, " COLLATE ") && !strings.Contains(definition, " GENERATED ALWAYS AS") {
		return
	}
	for i := range columns {
		c := &columns[i]
		name := "(?:" + regexp.QuoteMeta(c.Name) + "|" + regexp.QuoteMeta(string(Dialect.Ident(c.Name))) + ")"
		head := regexp.MustCompile(`(?:\(|, )` + name + " " + regexp.QuoteMeta(string(c.Type.SQL)) + traits)
		at := head.FindStringSubmatchIndex(definition)
		if at == nil {
			continue
		}
		if at[2] >= 0 && !slices.Contains(byBytes, strings.ToLower(definition[at[2]:at[3]])) {
			c.Type.Collation = definition[at[2]:at[3]]
		}
		if at[4] >= 0 {
			c.Computed, c.HasDefault = true, false
		}
		definition = definition[at[1]:]
	}
}

const lostQuery = `
SELECT 'index ' || index_name FROM duckdb_indexes() WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)
UNION ALL
SELECT 'constraint ' || constraint_text FROM duckdb_constraints()
WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) AND constraint_type <> 'NOT NULL'
UNION ALL
SELECT 'comment of ' || column_name FROM duckdb_columns()
WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) AND comment IS NOT NULL`

const commentQuery = `
SELECT comment FROM duckdb_tables()
WHERE database_name = $1 AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3) AND comment IS NOT NULL`

func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	r := &warehouses.Replacement{}
	for _, c := range t.Columns {
		if c.HasDefault && c.Generator == "" {
			r.Lost = append(r.Lost, "default of "+c.Name)
		}
		if c.Computed {
			r.Lost = append(r.Lost, "expression of "+c.Name)
		}
		if c.NotNull {
			r.Lost = append(r.Lost, "NOT NULL of "+c.Name)
		}
	}
	of := []any{t.Name.Database, t.Name.Schema, t.Name.Table}
	lost, err := s.Rows(ctx, lostQuery, math.MaxInt, of...)
	if err != nil {
		return nil, err
	}
	for _, l := range lost {
		r.Lost = append(r.Lost, l[0])
	}
	comment, err := s.Rows(ctx, commentQuery, 1, of...)
	if len(comment) > 0 {
		r.Carry = []warehouses.SQL{"COMMENT ON TABLE " + Dialect.Table(t.Name) + " IS " + Dialect.Text(comment[0][0])}
	}
	return r, err
}

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	var n int
	err := s.row(ctx, "SELECT count(*) FROM duckdb_schemas() WHERE database_name = $1 AND lower(schema_name) = lower($2)", name.Database, name.Schema).Scan(&n)
	return n > 0, s.Failed(ctx, err)
}
