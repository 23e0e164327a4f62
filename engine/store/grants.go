package store

import (
	"context"
	"database/sql"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Role is a role of the Engine DB with the statements that make it.
type Role struct {
	Name       string
	For        string // what it can do, for people
	Statements []string
}

// Roles proposes roles with no more privileges than their work needs, for an administrator to make; none where the file's
// permissions are all there is. What exists already is handed over to the role that migrates.
func (s *Store) Roles(ctx context.Context) ([]Role, error) {
	if s.b.Dialect != Postgres {
		return nil, nil
	}
	plain := strings.Trim(s.b.Schema, `"`)
	name := func(what string) string { return `"` + plain + "_" + what + `"` }
	var database string
	var handOver []string
	err := s.read(ctx, "read who owns what", func(t *tx) error {
		var user string
		var create sql.NullBool
		if err := t.row("who_am_i").Scan(&user, &database, &create); err != nil {
			return err
		}
		return t.each("owned_by_others", func(rows *sql.Rows) error {
			var what string
			err := rows.Scan(&what)
			handOver = append(handOver, "ALTER "+what+" OWNER TO "+name("migrate"))
			return err
		}, plain+"_migrate")
	})
	if err != nil {
		return nil, err
	}
	made := func(what string) []string {
		return []string{
			"CREATE ROLE " + name(what) + " LOGIN",
			`GRANT CONNECT ON DATABASE "` + strings.ReplaceAll(database, `"`, `""`) + `" TO ` + name(what),
			"GRANT USAGE ON SCHEMA " + s.b.Schema + " TO " + name(what),
		}
	}
	granted := func(what string, w work) []string {
		statements := made(what)
		if w == purges {
			statements = append(statements[:1], "GRANT "+name("run")+" TO "+name(what))
		}
		for _, g := range needed(w) {
			statements = append(statements, "GRANT "+strings.Join(g.privileges, ", ")+" ON "+s.b.Schema+"."+g.table+" TO "+name(what))
		}
		return statements
	}
	migrate := append(made("migrate")[:2],
		"CREATE SCHEMA IF NOT EXISTS "+s.b.Schema,
		"ALTER SCHEMA "+s.b.Schema+" OWNER TO "+name("migrate"))
	return []Role{
		{strings.Trim(name("migrate"), `"`), "migrate; it owns the schema and all in it", append(migrate, handOver...)},
		{strings.Trim(name("run"), `"`), "all commands but migrate and purge", granted("run", runs)},
		{strings.Trim(name("purge"), `"`), "what the one before can do, and purge", granted("purge", purges)},
		{strings.Trim(name("read"), `"`), "status, history, explain, list, graph, audit, locks and notifications", granted("read", reads)},
	}, nil
}

// work is what a role is for.
type work int

const (
	runs   work = iota
	purges      // beside what runs needs
	reads
)

type tableGrant struct {
	table      string
	privileges []string
}

// privileges in the order in which they are written.
var privileges = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}

// hidden is what the statements of this package do not name: the triggers of CFG_ tables write and read on behalf of
// whoever changes a row, and locks are named in a table of their own. Whether a process lives is asked by taking its lock,
// so that explain writes there too.
var hidden = map[work]map[string][]string{
	runs: {
		"AUD_METADATA_CHANGES": {"INSERT"},
		"ENGINE_TASK_NAMES":    {"SELECT"},
		"AUD_LOCKS":            {"SELECT", "INSERT", "UPDATE", "DELETE"},
	},
	reads: {"AUD_LOCKS": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
}

// unread are the tables that commands which only read do without.
var unread = []string{"AUD_TARGETS", "AUD_TARGET_HASH_VERSION"}

// touches are the ways in which statements name tables, with what they need there.
var touches = []struct {
	pattern *regexp.Regexp
	need    []string
}{
	{regexp.MustCompile(`(?:FROM|JOIN) §\.(\w+)`), []string{"SELECT"}},
	{regexp.MustCompile(`INSERT INTO §\.(\w+)`), []string{"INSERT"}},
	{regexp.MustCompile(`(?s)INSERT INTO §\.(\w+).*DO UPDATE`), []string{"UPDATE"}},
	{regexp.MustCompile(`UPDATE §\.(\w+)`), []string{"UPDATE"}},
	{regexp.MustCompile(`DELETE FROM §\.(\w+)`), []string{"DELETE"}},
}

// needed reads out of the statements which privileges they need, by the names of the tables.
func needed(w work) []tableGrant {
	found := map[string]map[string]bool{}
	add := func(table string, need []string) {
		if found[table] == nil {
			found[table] = map[string]bool{}
		}
		for _, p := range need {
			found[table][p] = true
		}
	}
	for name, query := range loadQueries(Postgres, "§") {
		deletes := strings.HasPrefix(name, "purge_") && strings.Contains(query, "DELETE FROM")
		if name == "raise_ids" || deletes != (w == purges) {
			continue
		}
		for _, t := range touches {
			for _, m := range t.pattern.FindAllStringSubmatch(query, -1) {
				switch {
				case w == reads && (t.need[0] != "SELECT" || slices.Contains(unread, m[1])):
				case w == purges && t.need[0] != "DELETE":
				default:
					add(m[1], t.need)
				}
			}
		}
	}
	for table, need := range hidden[w] {
		add(table, need)
	}
	var all []tableGrant
	for _, table := range slices.Sorted(maps.Keys(found)) {
		g := tableGrant{table: table}
		for _, p := range privileges {
			if found[table][p] {
				g.privileges = append(g.privileges, p)
			}
		}
		all = append(all, g)
	}
	return all
}
