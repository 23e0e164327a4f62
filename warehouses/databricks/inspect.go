package databricks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// stateOf is the SQLSTATE below an error of a statement.
func stateOf(err error) string {
	var f *fault.Error
	if errors.As(err, &f) && f.Err != nil {
		return sqlState(f.Err)
	}
	return ""
}

// describeQuery is for queries only, by Databricks's grammar, and runs nothing.
func (s *session) describeQuery(ctx context.Context, query warehouses.SQL) ([][]string, error) {
	return s.Rows(ctx, "DESCRIBE QUERY\n"+query, math.MaxInt)
}

// Confirm lets Databricks parse the text where its grammar has a query and nothing else.
func (s *session) Confirm(ctx context.Context, text warehouses.SQL) error {
	_, err := s.describeQuery(ctx, text)
	if stateOf(err) == syntaxError {
		return fault.New(fault.SelectInvalid, "Databricks does not take it as one read-only SELECT: %s", fault.As(err).Message).WithHint("write one read-only SELECT")
	}
	return err
}

func (s *session) Describe(ctx context.Context, query warehouses.SQL) ([]warehouses.Column, error) {
	rows, err := s.describeQuery(ctx, query)
	if err != nil {
		return nil, err
	}
	columns := make([]warehouses.Column, len(rows))
	for i, r := range rows {
		columns[i] = warehouses.Column{Name: r[0], Type: parseType(r[1])}
	}
	return columns, nil
}

// described is what DESCRIBE TABLE EXTENDED tells of a relation.
type described struct {
	columns  [][]string // name, type, comment
	details  map[string]string
	defaults []string // columns that have one
}

func readDescription(rows [][]string) described {
	d := described{details: map[string]string{}}
	section := ""
	for _, r := range rows {
		switch {
		case strings.HasPrefix(r[0], "#"):
			section = r[0]
		case r[0] == "":
		case section == "":
			d.columns = append(d.columns, r)
		case section == "# Detailed Table Information":
			d.details[r[0]] = r[1]
		case section == "# Column Default Values":
			d.defaults = append(d.defaults, r[0])
		}
	}
	return d
}

func (s *session) describeTable(ctx context.Context, name warehouses.QualifiedName) (*described, error) {
	rows, err := s.Rows(ctx, "DESCRIBE TABLE EXTENDED "+Dialect.Table(name), math.MaxInt)
	if state := stateOf(err); state == undefinedTable || state == undefinedObject {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := readDescription(rows)
	return &d, nil
}

// icebergReads finds the property in what DESCRIBE prints of all of them.
var icebergReads = regexp.MustCompile(`[\[,]delta\.universalFormat\.enabledFormats=[^=]*\biceberg\b`)

// mayCompute matches what says that the table has had identity or generated columns, which a replacement does not undo.
var mayCompute = regexp.MustCompile(`delta\.feature\.(identity|generated)Columns=|delta\.minWriterVersion=[456]\b`)

func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	d, err := s.describeTable(ctx, name)
	if err != nil || d == nil {
		return nil, err
	}
	t := &warehouses.Table{Name: name, Kind: d.kind(), Format: warehouses.FormatNative}
	if icebergReads.MatchString(d.details["Table Properties"]) {
		t.Format = warehouses.FormatIceberg
	}
	for _, c := range d.columns {
		t.Columns = append(t.Columns, warehouses.TableColumn{Column: warehouses.Column{Name: c[0], Type: parseType(c[1])}, HasDefault: slices.Contains(d.defaults, c[0])})
	}
	if t.Kind == "table" && mayCompute.MatchString(d.details["Table Properties"]) {
		err = s.computed(ctx, t)
	}
	return t, err
}

// kind is a word for what the relation is; only Delta tables are tables here.
func (d *described) kind() string {
	switch d.details["Type"] {
	case "MANAGED", "EXTERNAL":
		if p := strings.ToLower(d.details["Provider"]); p != "delta" {
			return p + " table"
		}
		return "table"
	}
	return strings.ToLower(strings.ReplaceAll(d.details["Type"], "_", " "))
}

// identity stands for the generator of a column, which has no name.
const identity = "IDENTITY"

// computed finds the columns that the table fills itself. Where there is no SHOW CREATE TABLE for Delta, in open-source
// Spark, only an UPDATE tells of ROW_ID: one that is explained and not run.
func (s *session) computed(ctx context.Context, t *warehouses.Table) error {
	text, err := s.definition(ctx, t.Name)
	if err != nil {
		return err
	}
	if text != "" {
		for i := range t.Columns {
			c := &t.Columns[i]
			switch traits := columnTraits(text, c.Name); {
			case traits.identity && strings.EqualFold(c.Name, "row_id"):
				c.Generator = identity
			default:
				c.Computed = traits.identity || traits.generated
			}
		}
		return nil
	}
	c := t.Column("row_id")
	if c == nil {
		return nil
	}
	rows, err := s.Rows(ctx, "EXPLAIN UPDATE "+Dialect.Table(t.Name)+" SET "+Dialect.Ident(c.Name)+" = 0", math.MaxInt)
	if stateOf(err) == identityWritten || err == nil && strings.Contains(fmt.Sprint(rows), "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED") {
		c.Generator = identity
		return nil
	}
	return err
}

// definition is the table's CREATE TABLE, "" where the server has none to show.
func (s *session) definition(ctx context.Context, name warehouses.QualifiedName) (string, error) {
	rows, err := s.Rows(ctx, "SHOW CREATE TABLE "+Dialect.Table(name), 1)
	if err != nil && strings.HasPrefix(fault.As(err).Message, "DELTA_OPERATION_NOT_ALLOWED") { // it has no SQLSTATE
		return "", nil
	}
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// traits are what a CREATE TABLE says of a column besides its type.
type traits struct{ identity, generated, notNull, hasDefault, masked bool }

var quotedText = regexp.MustCompile(`'(?:[^'\\]|\\.|'')*'`)

// columnTraits reads the line of a column; SHOW CREATE TABLE gives one to each.
func columnTraits(definition, column string) traits {
	for line := range strings.Lines(quotedText.ReplaceAllString(definition, "''")) {
		line = strings.TrimSpace(line)
		rest, ok := cutFold(line, column+" ")
		if !ok {
			rest, ok = cutFold(line, string(Dialect.Ident(column))+" ")
		}
		if !ok {
			continue
		}
		rest = strings.ToUpper(rest)
		isIdentity := strings.Contains(rest, " AS IDENTITY")
		return traits{
			identity: isIdentity, generated: !isIdentity && strings.Contains(rest, " GENERATED ALWAYS AS "),
			notNull: strings.Contains(rest, " NOT NULL"), hasDefault: strings.Contains(rest, " DEFAULT ") && !isIdentity, masked: strings.Contains(rest, " MASK "),
		}
	}
	return traits{}
}

func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix)-1:], true
}

// Replacement says again in Options what CREATE OR REPLACE TABLE would forget, and lists in Kept what cannot be said
// beside AS SELECT. Grants stay with the name.
func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	d, err := s.describeTable(ctx, t.Name)
	if err != nil || d == nil {
		return &warehouses.Replacement{}, err
	}
	details, err := s.details(ctx, t.Name)
	if err != nil {
		return nil, err
	}
	text, err := s.definition(ctx, t.Name)
	if err != nil {
		return nil, err
	}
	r := &warehouses.Replacement{Owner: d.details["Owner"]}
	r.Kept = d.kept(text, details)
	r.Options, err = details.options(d.details["Type"] == "EXTERNAL")
	return r, err
}

// details are what a table's options are made of.
type details struct {
	comment, location     string
	partitions, clustered []string
	properties            map[string]string
}

func (s *session) details(ctx context.Context, name warehouses.QualifiedName) (details, error) {
	found := details{properties: map[string]string{}}
	rows, err := s.Rows(ctx, "DESCRIBE DETAIL "+Dialect.Table(name), 1)
	if err != nil || len(rows) == 0 {
		return found, err
	}
	// format, id, name, description, location, createdAt, lastModified, partitionColumns, clusteringColumns, …
	r := rows[0]
	if len(r) < 9 {
		return found, fmt.Errorf("DESCRIBE DETAIL has %d columns", len(r))
	}
	if r[3] != "NULL" {
		found.comment = r[3]
	}
	found.location = r[4]
	// It has the properties too, but as a text that not every value can be read from.
	properties, err := s.Rows(ctx, "SHOW TBLPROPERTIES "+Dialect.Table(name), math.MaxInt)
	for _, p := range properties {
		found.properties[p[0]] = p[1]
	}
	return found, errors.Join(err, unmarshal(r[7], &found.partitions), unmarshal(r[8], &found.clustered))
}

func unmarshal(text string, into any) error {
	if text == "NULL" || text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

const (
	checks        = "delta.constraints."
	clusterByAuto = "clusterByAuto"
)

// ofServer are properties that the server keeps for itself.
func ofServer(property string) bool {
	switch property {
	case "delta.minReaderVersion", "delta.minWriterVersion", "delta.columnMapping.maxColumnId", "delta.lastCommitTimestamp", "delta.lastUpdateVersion", "clusteringColumns", clusterByAuto:
		return true
	}
	return strings.HasPrefix(property, "delta.feature.") || strings.HasPrefix(property, "delta.rowTracking.materialized") ||
		strings.HasPrefix(property, checks) || strings.HasPrefix(property, "delta.liquid.") || strings.HasPrefix(property, "io.unitycatalog.")
}

// options is what a CREATE TABLE says behind the name.
func (d details) options(external bool) (warehouses.SQL, error) {
	options := warehouses.SQL("\nUSING delta")
	if len(d.partitions) > 0 {
		options += "\nPARTITIONED BY (" + warehouses.Join(Dialect.Idents(d.partitions), ", ") + ")"
	}
	switch {
	case d.properties[clusterByAuto] == "true":
		options += "\nCLUSTER BY AUTO"
	case len(d.clustered) > 0:
		var columns []warehouses.SQL
		for _, c := range d.clustered {
			columns = append(columns, Dialect.Ident(c))
		}
		options += "\nCLUSTER BY (" + warehouses.Join(columns, ", ") + ")"
	}
	var properties []warehouses.SQL
	for _, k := range slices.Sorted(maps.Keys(d.properties)) {
		if !ofServer(k) {
			properties = append(properties, Dialect.Text(k)+" = "+Dialect.Text(d.properties[k]))
		}
	}
	if len(properties) > 0 {
		options += "\nTBLPROPERTIES (" + warehouses.Join(properties, ", ") + ")"
	}
	if external {
		options += "\nLOCATION " + Dialect.Text(d.location)
	}
	if d.comment != "" {
		options += "\nCOMMENT " + Dialect.Text(d.comment)
	}
	return options, nil
}

// kept lists what a new table would lack; text is the old one's CREATE TABLE, or "".
func (d *described) kept(text string, of details) []string {
	var kept []string
	for _, c := range d.columns {
		traits := columnTraits(text, c[0])
		isRowID := strings.EqualFold(c[0], "row_id")
		switch {
		case c[2] != "NULL" && c[2] != "":
			kept = append(kept, "the comment of "+c[0])
		case slices.Contains(d.defaults, c[0]) || traits.hasDefault:
			kept = append(kept, "the default of "+c[0])
		case traits.generated || traits.identity && !isRowID:
			kept = append(kept, "the generation of "+c[0])
		case traits.notNull && !isRowID:
			kept = append(kept, "NOT NULL of "+c[0])
		case traits.masked:
			kept = append(kept, "the mask of "+c[0])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(of.properties)) {
		if name, ok := strings.CutPrefix(k, checks); ok {
			kept = append(kept, "the constraint "+name)
		}
	}
	bare := strings.ToUpper(quotedText.ReplaceAllString(text, "''"))
	if strings.Contains(bare, " PRIMARY KEY") || strings.Contains(bare, " FOREIGN KEY") {
		kept = append(kept, "its key constraints")
	}
	if strings.Contains(bare, "ROW FILTER") {
		kept = append(kept, "its row filter")
	}
	return kept
}

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	schema := Dialect.Ident(name.Schema)
	if name.Database != "" {
		schema = Dialect.Ident(name.Database) + "." + schema
	}
	_, err := s.Rows(ctx, "DESCRIBE SCHEMA "+schema, 1)
	if stateOf(err) == undefinedObject {
		return false, nil
	}
	return err == nil, err
}
