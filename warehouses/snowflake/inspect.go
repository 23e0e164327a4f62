package snowflake

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakedb/gosnowflake"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// Confirm lets Snowflake compile the text as a subquery, which nothing but one query can be, and never runs it.
func (s *session) Confirm(ctx context.Context, text warehouses.SQL) error {
	_, err := s.compile(ctx, "SELECT *\nFROM (\n"+text+"\n) AS etl_source")
	e := serverError(err)
	if e == nil || ctx.Err() != nil {
		return s.failed(ctx, err)
	}
	switch e.Number {
	case syntaxError:
		return fault.New(fault.SelectInvalid, "Snowflake does not take it as one read-only SELECT: %s", reason(err)).WithHint("write one read-only SELECT")
	case duplicateColumn:
		return nil // which Describe will find too
	}
	return s.failed(ctx, err)
}

// compiled is a column as the server describes it before it runs a query.
type compiled struct {
	name, typ string
	length    int64
	precision int64
	scale     int64
}

func (s *session) compile(ctx context.Context, query warehouses.SQL) ([]compiled, error) {
	rows, err := s.query(gosnowflake.WithDescribeOnly(ctx), query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	columns := make([]compiled, len(types))
	for i, t := range types {
		columns[i] = compiled{name: t.Name(), typ: t.DatabaseTypeName()}
		columns[i].length, _ = t.Length()
		columns[i].precision, columns[i].scale, _ = t.DecimalSize()
	}
	return columns, rows.Err()
}

// typeNames are those that the driver's name gives completely.
var typeNames = map[string]string{"REAL": "FLOAT", "BOOLEAN": "BOOLEAN", "DATE": "DATE", "VARIANT": "VARIANT", "GEOGRAPHY": "GEOGRAPHY", "GEOMETRY": "GEOMETRY"}

func (c compiled) text() (string, bool) {
	switch c.typ {
	case "FIXED":
		return fmt.Sprintf("NUMBER(%d,%d)", c.precision, c.scale), true
	case "TEXT":
		return fmt.Sprintf("VARCHAR(%d)", c.length), true
	case "BINARY":
		return fmt.Sprintf("BINARY(%d)", c.length), true
	}
	name, ok := typeNames[c.typ]
	return name, ok
}

// literalNull is what a query must hold to have a column without a type.
var literalNull = regexp.MustCompile(`(?i)\bnull\b`)

// Describe compiles the query. The driver does not tell the precision of times, nor what is in arrays and the like, nor that a
// NULL has no type; of such columns SYSTEM$TYPEOF does, in a join on false that reads no row.
func (s *session) Describe(ctx context.Context, query warehouses.SQL) ([]warehouses.Column, error) {
	described, err := s.compile(ctx, query)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	columns := make([]warehouses.Column, len(described))
	var unsure []int
	seen := map[string]bool{}
	unique := true
	for i, c := range described {
		text, ok := c.text()
		columns[i] = warehouses.Column{Name: c.name, Type: parseType(text)}
		if !ok || c.typ == "TEXT" && literalNull.MatchString(string(query)) {
			unsure = append(unsure, i)
		}
		unique = unique && !seen[c.name]
		seen[c.name] = true
	}
	if len(unsure) == 0 || !unique {
		return columns, nil
	}
	var asked []warehouses.SQL
	for _, i := range unsure {
		asked = append(asked, "SYSTEM$TYPEOF(s."+Dialect.Ident(columns[i].Name)+")")
	}
	found, err := s.Rows(ctx, "SELECT "+warehouses.Join(asked, ", ")+"\nFROM (SELECT 1 AS one) AS o\nLEFT JOIN (\n"+query+"\n) AS s ON false", 1)
	if err != nil {
		return nil, err
	}
	for n, i := range unsure {
		text, _, _ := strings.Cut(found[0][n], "[") // behind it is how the values lie in storage
		if text == "NULL" {
			columns[i].Type.Untyped = true
			continue
		}
		if described[i].typ != "TEXT" {
			columns[i].Type = parseType(text)
		}
	}
	return columns, nil
}

// in names the schema of a table for SHOW.
func in(name warehouses.QualifiedName) warehouses.SQL {
	return " IN SCHEMA " + Dialect.Ident(name.Database) + "." + Dialect.Ident(name.Schema)
}

// show finds the one row of a SHOW command whose LIKE takes _ and % for others.
func (s *session) show(ctx context.Context, what warehouses.SQL, name warehouses.QualifiedName) (map[string]string, error) {
	rows, err := s.named(ctx, "SHOW "+what+" LIKE "+Dialect.Text(name.Table)+in(name), math.MaxInt)
	if i := slices.IndexFunc(rows, func(r map[string]string) bool { return r["name"] == name.Table }); i >= 0 {
		return rows[i], err
	}
	return nil, err
}

// relations are the words for what is not an ordinary table, by the column of SHOW TABLES that says so.
var relations = []struct{ column, word string }{{"is_external", "external table"}, {"is_dynamic", "dynamic table"}, {"is_hybrid", "hybrid table"}, {"is_event", "event table"}}

func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	columns, err := s.named(ctx, "DESCRIBE TABLE "+Dialect.Table(name), math.MaxInt)
	if e := serverError(err); e != nil && (e.Number == objectMissing || e.Number == databaseMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &warehouses.Table{Name: name, Kind: "table", Format: warehouses.FormatNative}
	for _, c := range columns {
		t.Columns = append(t.Columns, describedColumn(c))
	}
	shown, err := s.show(ctx, "TABLES", name)
	if err != nil {
		return nil, err
	}
	if shown == nil { // SHOW TABLES leaves views out
		t.Kind = "view"
		return t, nil
	}
	for _, r := range relations {
		if shown[r.column] == "Y" {
			t.Kind = r.word
		}
	}
	if shown["is_iceberg"] == "Y" {
		t.Format = warehouses.FormatIceberg
		for i := range t.Columns {
			t.Columns[i].Type = stored(t.Columns[i].Type, t.Format)
		}
	}
	return t, nil
}

func describedColumn(c map[string]string) warehouses.TableColumn {
	column := warehouses.TableColumn{Column: warehouses.Column{Name: c["name"], Type: parseType(c["type"])}, NotNull: c["null?"] == "N",
		HasDefault: set(c["default"]), Computed: c["kind"] == "VIRTUAL"}
	if d := strings.ToUpper(c["default"]); strings.HasPrefix(d, "IDENTITY") || strings.Contains(d, "NEXTVAL") {
		column.Generator = warehouses.SQL(c["default"])
	}
	return column
}

// set tells of a value of SHOW or DESCRIBE whether there is one.
func set(value string) bool { return value != "" && value != "NULL" }

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	n, err := s.Int(ctx, "SELECT count(*) FROM "+Dialect.Ident(name.Database)+".information_schema.schemata WHERE schema_name = "+Dialect.Text(name.Schema))
	return n > 0, err
}

// Replacement finds what the statement that makes the table anew carries over, and what it cannot.
func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	shown, err := s.show(ctx, "TABLES", t.Name)
	if err != nil || shown == nil {
		return &warehouses.Replacement{}, err
	}
	r := &warehouses.Replacement{Owner: shown["owner"]}
	mine, err := s.Rows(ctx, "SELECT is_role_in_session("+Dialect.Text(r.Owner)+")", 1)
	if err != nil {
		return nil, err
	}
	r.NotOwned = mine[0][0] == "false"
	if r.Kept, err = s.columnsKept(ctx, t); err != nil {
		return nil, err
	}
	if err := s.policies(ctx, t, r); err != nil {
		return nil, err
	}
	if t.Format == warehouses.FormatIceberg {
		if err := s.icebergKept(ctx, t, r); err != nil {
			return nil, err
		}
	}
	if keys := shown["cluster_by"]; set(keys) {
		r.Options += "\n  CLUSTER BY (" + warehouses.SQL(strings.TrimSuffix(strings.TrimPrefix(keys, "LINEAR("), ")")) + ")"
	}
	if t.Format == warehouses.FormatIceberg {
		r.Options += tableOptions(Dialect, warehouses.Storage{Format: t.Format})
	}
	r.Options += "\n  COPY GRANTS"
	if comment := shown["comment"]; set(comment) {
		r.Options += "\n  COMMENT = " + Dialect.Text(comment)
	}
	if shown["kind"] == "TRANSIENT" {
		r.Lost = append(r.Lost, "TRANSIENT, unless the schema is")
	}
	for column, word := range map[string]string{"change_tracking": "change tracking", "search_optimization": "search optimization"} {
		if shown[column] == "ON" {
			r.Lost = append(r.Lost, word)
		}
	}
	if shown["enable_schema_evolution"] == "Y" {
		r.Lost = append(r.Lost, "ENABLE_SCHEMA_EVOLUTION")
	}
	slices.Sort(r.Lost)
	return r, nil
}

// columnsKept are properties of columns, which a CREATE TABLE AS SELECT has none of. ROW_ID loses its generator: numbers then
// go on after the highest.
func (s *session) columnsKept(ctx context.Context, t *warehouses.Table) ([]string, error) {
	columns, err := s.named(ctx, "DESCRIBE TABLE "+Dialect.Table(t.Name), math.MaxInt)
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, c := range columns {
		column := describedColumn(c)
		for _, property := range []struct {
			what  string
			there bool
		}{
			{"NOT NULL of ", column.NotNull},
			{"default of ", column.HasDefault && column.Generator == ""},
			{"generator of ", column.Generator != "" && !strings.EqualFold(column.Name, "row_id")},
			{"primary key with ", c["primary key"] == "Y"},
			{"unique key with ", c["unique key"] == "Y"},
			{"expression of ", column.Computed},
			{"comment of ", set(c["comment"])},
			{"masking policy of ", set(c["policy name"])},
		} {
			if property.there {
				kept = append(kept, property.what+column.Name)
			}
		}
	}
	return kept, nil
}

// policies must not be lost without a word, since rows and values may be hidden by them. A role that may not look them up is
// told so.
func (s *session) policies(ctx context.Context, t *warehouses.Table, r *warehouses.Replacement) error {
	found, err := s.Rows(ctx, "SELECT DISTINCT policy_kind, policy_name FROM TABLE("+Dialect.Ident(t.Name.Database)+".information_schema.policy_references(ref_entity_name => "+
		Dialect.Text(string(Dialect.Table(t.Name)))+", ref_entity_domain => 'TABLE')) ORDER BY policy_kind, policy_name", math.MaxInt)
	if fault.Has(err, fault.StatementFailed) {
		r.Lost = append(r.Lost, "policies, which this role may not look up")
		return nil
	}
	for _, p := range found {
		if p[0] != "MASKING_POLICY" { // which the column has named
			r.Kept = append(r.Kept, strings.ToLower(strings.ReplaceAll(p[0], "_", " "))+" "+p[1])
		}
	}
	return err
}

// icebergKept: only where Snowflake is the catalog can a table be made anew in one statement, and only where it chose the place
// of its files is that theirs again.
func (s *session) icebergKept(ctx context.Context, t *warehouses.Table, r *warehouses.Replacement) error {
	shown, err := s.show(ctx, "ICEBERG TABLES", t.Name)
	if err != nil || shown == nil {
		return err
	}
	if catalog := shown["catalog_name"]; set(catalog) && catalog != ownCatalog || shown["iceberg_table_type"] == "UNMANAGED" {
		r.Kept = append(r.Kept, "its place in the catalog "+catalog+", which is not Snowflake's own")
	}
	if volume := shown["external_volume_name"]; set(volume) && volume != managedVolume {
		r.Kept = append(r.Kept, "its storage on the volume "+volume+" at "+shown["base_location"])
	}
	return nil
}
