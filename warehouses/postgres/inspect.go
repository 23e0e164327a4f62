package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// readOnly runs an inspection in a transaction that can write nothing and is rolled back. Inside an open transaction,
// that of a dry session, it is a savepoint, so that an inspection that fails leaves the transaction usable.
func (s *session) readOnly(ctx context.Context, inspect func() error) error {
	begin, end := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "ROLLBACK"
	if s.inTransaction() {
		begin = "SAVEPOINT etl_inspect; SET LOCAL transaction_read_only = on"
		end = "ROLLBACK TO SAVEPOINT etl_inspect; RELEASE SAVEPOINT etl_inspect"
	}
	if err := s.conn.Exec(ctx, warehouses.Marked(ctx, warehouses.SQL(begin))).Close(); err != nil {
		return s.failed(ctx, err)
	}
	return errors.Join(inspect(), s.end(end))
}

// Confirm lets PostgreSQL open a cursor for the text: only one query can have one, without data-modifying WITH, and
// without INTO; FOR UPDATE and its like fail because the transaction only reads.
func (s *session) Confirm(ctx context.Context, text warehouses.SQL) error {
	return s.readOnly(ctx, func() error {
		if _, err := s.conn.Prepare(ctx, "", warehouses.Marked(ctx, text), nil); err != nil {
			return s.notQuery(ctx, err, syntaxError)
		}
		_, err := s.send(ctx, "DECLARE etl_confirm NO SCROLL CURSOR FOR "+string(text)).Close()
		return s.notQuery(ctx, err, syntaxError, featureNotSupported, readOnlyTransaction)
	})
}

// notQuery makes the states that say so a refusal of the SELECT.
func (s *session) notQuery(ctx context.Context, err error, states ...string) error {
	if e := pgError(err); e != nil {
		for _, state := range states {
			if e.Code == state {
				return fault.New(fault.SelectInvalid, "PostgreSQL does not take it as one read-only SELECT: %s", firstLine(e.Message)).WithHint("write one read-only SELECT")
			}
		}
	}
	return s.failed(ctx, err)
}

// Describe takes names and type modifiers from the protocol, which tells of a domain only the type below it. The
// domains come from a query that never reads the SELECT's rows, because it joins them on false.
func (s *session) Describe(ctx context.Context, query warehouses.SQL) ([]warehouses.Column, error) {
	var columns []warehouses.Column
	err := s.readOnly(ctx, func() error {
		described, err := s.conn.Prepare(ctx, "", warehouses.Marked(ctx, query), nil)
		if err != nil {
			return s.failed(ctx, err)
		}
		if len(described.Fields) == 0 {
			return nil
		}
		var names, typeOf, types, modifiers []string
		for i := range described.Fields {
			names = append(names, fmt.Sprintf("c%d", i))
			typeOf = append(typeOf, fmt.Sprintf("pg_typeof(s.c%d)::oid", i))
		}
		found, err := s.query(ctx, "SELECT "+strings.Join(typeOf, ", ")+"\nFROM (SELECT 1) AS one\nLEFT JOIN (\n"+string(query)+"\n) AS s ("+strings.Join(names, ", ")+") ON false")
		if err != nil {
			return err
		}
		for i, f := range described.Fields {
			oid, modifier := found[0][i], f.TypeModifier
			if oid != strconv.FormatUint(uint64(f.DataTypeOID), 10) {
				modifier = -1
			}
			types, modifiers = append(types, oid), append(modifiers, strconv.Itoa(int(modifier)))
		}
		all, err := s.types(ctx, types, modifiers)
		if err != nil {
			return err
		}
		for i, f := range described.Fields {
			columns = append(columns, warehouses.Column{Name: f.Name, Type: all[i]})
		}
		return nil
	})
	return columns, err
}

// types reads complete types by oid and modifier. Domains have the kind of the type below them, enumerations that of
// text, which is how they are hashed; both keep their own name.
func (s *session) types(ctx context.Context, oids, modifiers []string) ([]warehouses.Type, error) {
	rows, err := s.query(ctx, typesQuery, "{"+strings.Join(oids, ",")+"}", "{"+strings.Join(modifiers, ",")+"}")
	if err != nil {
		return nil, err
	}
	if len(rows) != len(oids) {
		return nil, fault.New(fault.StatementFailed, "a type was dropped meanwhile")
	}
	types := make([]warehouses.Type, len(rows))
	for i, r := range rows {
		name, base := r[0], r[1]
		types[i] = parseType(base)
		if !types[i].Untyped {
			types[i].SQL = warehouses.SQL(name)
		}
	}
	return types, nil
}

func (s *session) SchemaExists(ctx context.Context, name warehouses.QualifiedName) (bool, error) {
	rows, err := s.query(ctx, "SELECT FROM pg_namespace WHERE nspname = $1", name.Schema)
	return len(rows) > 0, err
}

// relkinds are the words for what is not a table.
var relkinds = map[string]string{
	"r": "table", "p": "table", "v": "view", "m": "materialized view", "f": "foreign table",
	"S": "sequence", "c": "composite type", "i": "index", "I": "index", "t": "TOAST table",
}

func (s *session) Table(ctx context.Context, name warehouses.QualifiedName) (*warehouses.Table, error) {
	var t *warehouses.Table
	err := s.readOnly(ctx, func() error {
		rows, err := s.query(ctx, tableQuery, name.Schema, name.Table)
		if err != nil || len(rows) == 0 {
			return err
		}
		t = &warehouses.Table{Name: name, Kind: relkinds[rows[0][1]], Format: warehouses.FormatNative}
		return s.columns(ctx, t, rows[0][0])
	})
	return t, err
}

func (s *session) Replacement(ctx context.Context, t *warehouses.Table) (*warehouses.Replacement, error) {
	r := &warehouses.Replacement{}
	err := s.readOnly(ctx, func() error {
		rows, err := s.query(ctx, ownerQuery, t.Name.Schema, t.Name.Table)
		if err != nil || len(rows) == 0 {
			return err
		}
		oid := rows[0][0]
		r.Owner, r.NotOwned = rows[0][1], rows[0][2] == "f"
		if r.Dependents, err = s.list(ctx, dependentsQuery, oid); err != nil {
			return err
		}
		if r.Lost, err = s.list(ctx, lostQuery, oid); err != nil {
			return err
		}
		mine, comment := rows[0][3] == "t", rows[0][4]
		r.Carry, err = s.carry(ctx, t.Name, oid, r.Owner, mine, comment)
		return err
	})
	return r, err
}

func (s *session) columns(ctx context.Context, t *warehouses.Table, oid string) error {
	rows, err := s.query(ctx, columnsQuery, oid)
	if err != nil {
		return err
	}
	var oids, modifiers []string
	for _, r := range rows {
		oids, modifiers = append(oids, r[1]), append(modifiers, r[2])
		t.Columns = append(t.Columns, warehouses.TableColumn{Column: warehouses.Column{Name: r[0]}, NotNull: r[3] == "t", Computed: r[4] == "t", Generator: warehouses.SQL(r[5])})
	}
	types, err := s.types(ctx, oids, modifiers)
	if err != nil {
		return err
	}
	for i := range t.Columns {
		t.Columns[i].Type = types[i]
		t.Columns[i].Type.Collation = rows[i][6]
	}
	return nil
}

func (s *session) list(ctx context.Context, query, oid string) ([]string, error) {
	rows, err := s.query(ctx, query, oid)
	var out []string
	for _, r := range rows {
		out = append(out, r[0])
	}
	return out, err
}

// carry collects the statements that make a replacement, a new table of the session's user, belong to the old owner
// and open to the same roles.
func (s *session) carry(ctx context.Context, table warehouses.QualifiedName, oid, owner string, mine bool, comment string) ([]warehouses.SQL, error) {
	var carry []warehouses.SQL
	on := " ON TABLE " + Dialect.Table(table)
	if !mine {
		carry = append(carry, "ALTER TABLE "+Dialect.Table(table)+" OWNER TO "+Dialect.Ident(owner))
	}
	defaults, err := s.list(ctx, defaultGranteesQuery, oid)
	if err != nil {
		return nil, err
	}
	for _, role := range defaults {
		carry = append(carry, "REVOKE ALL"+on+" FROM "+grantee(role))
	}
	grants, err := s.query(ctx, grantsQuery, oid)
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		grant := "GRANT " + warehouses.SQL(g[1]) + on + " TO " + grantee(g[0])
		if g[2] == "t" {
			grant += " WITH GRANT OPTION"
		}
		carry = append(carry, grant)
	}
	if comment != "" {
		carry = append(carry, "COMMENT"+on+" IS "+Dialect.Text(comment))
	}
	return carry, nil
}

// grantee is "" for everybody.
func grantee(role string) warehouses.SQL {
	if role == "" {
		return "PUBLIC"
	}
	return Dialect.Ident(role)
}
