package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed sql
var handWritten embed.FS

// action is measured on two targets with the same rows: the engine writes one, the hand-written SQL the other.
type action struct {
	name   string
	params []string
	// compared are the columns that have to be equal afterwards; the rest are instants, ids and names of users.
	compared string
	refill   bool // the target is made whole again before each pair
}

const business = "id, name, city, qty, amount"

var measured = []action{
	{"APPEND_TABLE", nil, business, false},
	{"OVERWRITE_TABLE", nil, business, true},
	{"SCD1_MERGE", []string{"MERGE_KEY: id", "MERGE_COMPARE_COLUMNS: name|city|qty"}, business + ", hash_key, delete_flag", false},
	{"SCD2_MERGE", []string{"MERGE_KEY: id", "MERGE_COMPARE_COLUMNS: name|city|qty"}, business + ", hash_key, delete_flag, active_flag", false},
}

func (a action) file() string { return strings.ToLower(a.name) + ".sql" }

// pipelines: PREPARE_X fills both targets alike, X is the one task that is measured.
func (a action) pipelines() map[string]string {
	run := func(target string) []string {
		return append([]string{"SQL_ACTION: " + a.name, "TARGET_OBJECT: " + target, `SOURCE_SQL: "SELECT ` + business + ` FROM src.delta"`}, a.params...)
	}
	prepare := ""
	for _, target := range []string{"engine", "hand"} {
		table := target + "." + strings.ToLower(a.name)
		prepare += task("setup_"+target, "", "SQL_ACTION: SETUP_TABLE", "TARGET_OBJECT: "+table, "SETUP_FOR: "+a.name, `SOURCE_SQL: "SELECT `+business+` FROM src.delta"`)
		prepare += task("fill_"+target, "setup_"+target, run(table)...)
	}
	return map[string]string{
		"PREPARE_" + a.name: prepare,
		a.name:              task("act", "", run("engine."+strings.ToLower(a.name))...),
	}
}

// actions measures every action on every warehouse.
func (b *bench) actions(p *page) error {
	dir := filepath.Join(b.dir, "actions-duckdb")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := b.actionsOn(p, dir, b.duckdb(dir)); err != nil || b.server == "" {
		return err
	}
	w, drop, err := b.postgres("actions")
	if err != nil {
		return err
	}
	return errors.Join(b.actionsOn(p, filepath.Join(b.dir, "actions-postgres"), w), drop())
}

func (b *bench) actionsOn(p *page, dir string, w warehouse) error {
	all := map[string]string{}
	for _, a := range measured {
		for code, tasks := range a.pipelines() {
			all[code] = tasks
		}
	}
	project, err := b.project(dir, sqliteEngine, w, all)
	if err != nil {
		return err
	}
	for _, a := range measured {
		engine, hand, err := project.measure(w, a)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", a.name, w.title, err)
		}
		p.action(w, a, median(engine), median(hand))
	}
	return nil
}

// measure runs an action and its hand-written twin in turns, and makes sure that they leave the same rows.
func (p *project) measure(w warehouse, a action) (engine, hand []cost, err error) {
	b := p.b
	table := strings.ToLower(a.name)
	twin, err := statements(w, a, "hand."+table)
	if err != nil {
		return nil, nil, err
	}
	fill := func() error {
		if _, err := p.hand(w, b.source(0, b.rows, 0)); err != nil {
			return err
		}
		_, err := p.run("run", "--pipeline", "PREPARE_"+a.name)
		return err
	}
	if err := fill(); err != nil {
		return nil, nil, err
	}
	for i := range b.repeat {
		if a.refill && i > 0 {
			if err := fill(); err != nil {
				return nil, nil, err
			}
		}
		// Half of the rows changed, three tenths as they were, one fifth new.
		if _, err := p.hand(w, b.source(b.rows+i*b.stage/5-b.stage*4/5, b.stage, i+1)+settled(w, "engine."+table, "hand."+table)); err != nil {
			return nil, nil, err
		}
		for turn := range 2 {
			var c cost
			if turn == i%2 {
				if c, err = p.run("run", "--pipeline", a.name); err == nil {
					engine = append(engine, c)
				}
			} else if c, err = p.hand(w, twin); err == nil {
				hand = append(hand, c)
			}
			if err != nil {
				return nil, nil, err
			}
		}
		if _, err := p.hand(w, same(a, "engine."+table, "hand."+table)); err != nil {
			return nil, nil, err
		}
	}
	return engine, hand, nil
}

func statements(w warehouse, a action, target string) (string, error) {
	t, err := template.ParseFS(handWritten, "sql/"+w.name+"/"+a.file())
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = t.Execute(&text, target)
	return text.String(), err
}

// source makes src.delta: n rows with ids from first on. Of the first eight tenths, those whose id is not divided by 8
// below 3 differ from round to round.
func (b *bench) source(first, n, round int) string {
	create := "CREATE SCHEMA IF NOT EXISTS src;\nDROP TABLE IF EXISTS src.delta;\n"
	return create + fmt.Sprintf(`CREATE TABLE src.delta AS
SELECT
  CAST(i AS bigint) AS id,
  CAST('customer ' || i || CASE WHEN i %% 8 < 5 THEN ' in round %[3]d' ELSE '' END AS varchar) AS name,
  CAST(CASE WHEN i %% 10 = 0 THEN NULL ELSE 'city ' || i %% 1000 END AS varchar) AS city,
  CAST(i %% 97 AS integer) AS qty,
  CAST(i %% 10000 / 100.0 AS decimal(12, 2)) AS amount
FROM generate_series(%[1]d, %[2]d) AS r (i);
`, first, first+n-1, round)
}

// settled lets the warehouse do what it would else do in the background of a measured run.
func settled(w warehouse, tables ...string) string {
	if w.name != "postgres" {
		return "CHECKPOINT;\n"
	}
	text := "ANALYZE src.delta;\n"
	for _, t := range tables {
		text += "VACUUM ANALYZE " + t + ";\n"
	}
	return text + "CHECKPOINT;\n"
}

// same is a statement that fails, by a cast, when the two targets differ.
func same(a action, left, right string) string {
	return fmt.Sprintf(`SELECT CAST(CASE WHEN n = 0 THEN '1' ELSE n || ' rows differ between %[2]s and %[3]s' END AS integer)
FROM (
  SELECT (SELECT count(*) FROM (SELECT %[1]s FROM %[2]s EXCEPT ALL SELECT %[1]s FROM %[3]s) AS l)
       + (SELECT count(*) FROM (SELECT %[1]s FROM %[3]s EXCEPT ALL SELECT %[1]s FROM %[2]s) AS r) AS n
) AS compared;
`, a.compared, left, right)
}
