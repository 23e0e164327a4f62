package trino

import (
	"context"
	"math"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Confirm lets Trino analyse the text as a subquery, which only a query can be.
func (s *session) Confirm(ctx context.Context, text warehouses.SQL) error {
	_, err := s.Rows(ctx, "EXPLAIN (TYPE VALIDATE) SELECT 1 FROM (\n"+text+"\n)", math.MaxInt)
	if e := trinoError(err); e != nil && e.ErrorName == syntaxError {
		return fault.New(fault.SelectInvalid, "Trino does not take it as one read-only SELECT: %s", firstLine(e.Message)).WithHint("write one read-only SELECT")
	}
	return err
}

// Describe asks for no rows, which Trino answers without reading any. Names are as tables would have them: in lower case,
// quoted or not.
func (s *session) Describe(ctx context.Context, query warehouses.SQL) ([]warehouses.Column, error) {
	var r running
	rows, err := s.conn.QueryContext(ctx, warehouses.Marked(ctx, "SELECT * FROM (\n"+query+"\n) LIMIT 0"), r.args()...)
	if err != nil {
		return nil, s.over(ctx, &r, err)
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, s.over(ctx, &r, err)
	}
	columns := make([]warehouses.Column, len(types))
	for i, t := range types {
		columns[i] = warehouses.Column{Name: strings.ToLower(t.Name()), Type: parseType(typeText(t))}
	}
	for rows.Next() {
		continue // there are none; the end of them tells of errors
	}
	return columns, s.over(ctx, &r, rows.Err())
}

// of is the part of a query on information_schema that selects one table.
func of(name warehouses.QualifiedName, schema, table string) warehouses.SQL {
	return warehouses.SQL(schema) + " = " + Dialect.Text(name.Schema) + " AND " + warehouses.SQL(table) + " = " + Dialect.Text(name.Table)
}

// catalogView is a view of the information_schema of the table's catalog.
func catalogView(name warehouses.QualifiedName, view string) warehouses.SQL {
	return Dialect.Table(warehouses.QualifiedName{Database: name.Database, Schema: "information_schema", Table: view})
}

func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	rows, err := s.Rows(ctx, "SELECT t.table_type, c.column_name, c.data_type, c.is_nullable\nFROM "+catalogView(name, "tables")+" AS t\nJOIN "+catalogView(name, "columns")+
		" AS c\n  ON c.table_schema = t.table_schema AND c.table_name = t.table_name\nWHERE "+of(name, "t.table_schema", "t.table_name")+" AND "+of(name, "c.table_schema", "c.table_name")+
		"\nORDER BY c.ordinal_position", math.MaxInt)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	t := &warehouses.Table{Name: name, Kind: "table", Format: warehouses.FormatIceberg}
	if rows[0][0] != "BASE TABLE" {
		t.Kind = strings.ToLower(rows[0][0])
	}
	for _, r := range rows {
		t.Columns = append(t.Columns, warehouses.TableColumn{Column: warehouses.Column{Name: r[1], Type: parseType(r[2])}, NotNull: r[3] == "NO"})
	}
	return t, nil
}

// Replacement reads what CREATE OR REPLACE TABLE AS has to say again, and what it cannot say.
func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	r := &warehouses.Replacement{}
	for _, c := range t.Columns {
		if c.NotNull {
			r.Kept = append(r.Kept, "NOT NULL of "+c.Name)
		}
	}
	described, err := s.Rows(ctx, "DESCRIBE "+Dialect.Table(t.Name), math.MaxInt)
	if err != nil {
		return nil, err
	}
	for _, c := range described {
		if comment := c[len(c)-1]; comment != "" && comment != "NULL" {
			r.Kept = append(r.Kept, "the comment of "+c[0])
		}
	}
	shown, err := s.Rows(ctx, "SHOW CREATE TABLE "+Dialect.Table(t.Name), 1)
	if err != nil {
		return nil, err
	}
	r.Options = options(shown[0][0])
	return r, nil
}

// options are what follows the columns of a CREATE TABLE that Trino prints, without the location: a table that takes
// another's place gets it by itself.
func options(create string) warehouses.SQL {
	_, tail, found := strings.Cut(create, "\n)")
	if !found {
		return ""
	}
	var kept []string
	for line := range strings.SplitSeq(tail, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "location = ") {
			kept = append(kept, line)
		}
	}
	text := strings.Join(kept, "\n")
	text = strings.ReplaceAll(text, ",\n)", "\n)") // the location was the last
	return warehouses.SQL(strings.TrimSuffix(strings.Replace(text, "\nWITH (\n)", "", 1), "\n"))
}

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	n, err := s.Int(ctx, "SELECT count(*) FROM "+catalogView(name, "schemata")+" WHERE schema_name = "+Dialect.Text(name.Schema))
	return n > 0, err
}
