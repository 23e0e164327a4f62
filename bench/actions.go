package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed sql
var handWritten embed.FS

// action is measured on two targets with the same rows: the engine writes one, the hand-written SQL the other.
type action struct {
	name   string
	params []string
	// compared are the columns that have to be equal afterwards; the rest are instants, ids and names of users.
	compared string
	refill   bool   // the target is made whole again before each pair
	far      bool   // only on warehouses of farServers
	filledBy string // the action whose columns and first rows the target has; "" is the same
}

const business = "id, name, city, qty, amount"

var measured = []action{
	{name: "CREATE_TABLE", compared: business, refill: true, far: true},
	{name: "APPEND_TABLE", compared: business},
	{name: "OVERWRITE_TABLE", compared: business, refill: true},
	{name: "SCD1_MERGE", params: []string{"MERGE_KEY: id", "MERGE_COMPARE_COLUMNS: name|city|qty"}, compared: business + ", hash_key, delete_flag"},
	{name: "SCD2_MERGE", params: []string{"MERGE_KEY: id", "MERGE_COMPARE_COLUMNS: name|city|qty"}, compared: business + ", hash_key, delete_flag, active_flag"},
	{name: "DELETE_ROWS", params: []string{"MERGE_KEY: id"}, compared: business + ", hash_key, delete_flag", far: true, filledBy: "SCD1_MERGE"},
}

// actions are those that are measured on the warehouse.
func (w warehouse) actions() (all []action) {
	for _, a := range measured {
		if w.far || !a.far {
			all = append(all, a)
		}
	}
	return all
}

func (a action) table() string { return strings.ToLower(a.name) }
func (a action) file() string  { return a.table() + ".sql" }

func (a action) source(w warehouse) string {
	columns := business
	if a.name == "DELETE_ROWS" {
		columns = "id"
	}
	return `SOURCE_SQL: "SELECT ` + columns + " FROM " + w.in("src") + `.delta"`
}

// filler is the action whose columns the target has.
func (a action) filler() action {
	for _, f := range measured {
		if f.name == a.filledBy {
			return f
		}
	}
	return a
}

// tasks are those that make and fill both targets alike, and the one that is measured.
func (a action) tasks(w warehouse) (prepare, act string) {
	run := func(a action, target string) []string {
		return append([]string{"SQL_ACTION: " + a.name, "TARGET_OBJECT: " + target, a.source(w)}, a.params...)
	}
	for _, target := range []string{"engine", "hand"} {
		table, code := w.in(target)+"."+a.table(), target+"_"+a.table()
		after := ""
		if a.name != "CREATE_TABLE" {
			after = "setup_" + code
			prepare += task(after, "", "SQL_ACTION: SETUP_TABLE", "TARGET_OBJECT: "+table, "SETUP_FOR: "+a.filler().name, a.filler().source(w))
		}
		prepare += task("fill_"+code, after, run(a.filler(), table)...)
	}
	return prepare, task(a.table(), "", run(a, w.in("engine")+"."+a.table())...)
}

// actionPipelines are X, the one task of action X, all of them in ALL, and PREPARE_X, or one PREPARE for all where statements
// are slow.
func actionPipelines(w warehouse) map[string]string {
	all := map[string]string{}
	for _, a := range w.actions() {
		prepare, act := a.tasks(w)
		all[a.name] = act
		all["ALL"] += act
		if w.far {
			all["PREPARE"] += prepare
		} else {
			all["PREPARE_"+a.name] = prepare
		}
	}
	return all
}

// actions measures every action on every warehouse.
func (b *bench) actions(p *page) error {
	on := func(dir string, w warehouse) error { return b.actionsOn(p, dir, w) }
	if err := b.onLocal("actions", on); err != nil {
		return err
	}
	return b.onFar("actions", on)
}

// onLocal does something on DuckDB and on PostgreSQL.
func (b *bench) onLocal(name string, do func(dir string, w warehouse) error) error {
	if b.asked("duckdb") {
		dir := filepath.Join(b.dir, name+"-duckdb")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := do(dir, b.duckdb(dir)); err != nil {
			return err
		}
	}
	if b.server == "" || !b.asked("postgres") {
		return nil
	}
	w, drop, err := b.postgres(name)
	if err != nil {
		return err
	}
	return errors.Join(do(filepath.Join(b.dir, name+"-postgres"), w), drop())
}

func (b *bench) actionsOn(p *page, dir string, w warehouse) error {
	project, err := b.project(dir, sqliteEngine, w, actionPipelines(w))
	if err != nil {
		return err
	}
	start := time.Now()
	chosen := slices.DeleteFunc(w.actions(), func(a action) bool {
		return b.options.actions != "" && !slices.Contains(strings.Split(b.options.actions, ","), a.name)
	})
	for i, a := range chosen {
		var until time.Time // the last pair has to end
		if w.far {
			until = start.Add(b.budget * time.Duration(i+1) / time.Duration(len(chosen)))
		}
		if w.far && time.Since(start) > b.budget {
			say("%s: no time is left for %s", w.title, a.name)
			continue
		}
		engine, hand, err := project.measure(w, a, until)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", a.name, w.title, err)
		}
		if w.far {
			p.farAction(w, a, len(engine), median(untilSaid(engine)), median(untilSaid(hand)))
			if err := p.write(b.out); err != nil { // what there is by now has taken long
				return err
			}
		} else {
			p.action(w, a, median(engine), median(hand))
		}
	}
	return nil
}

// prepare makes both targets and fills them with rows; where statements are slow, with few, and the rest by hand.
func (p *project) prepare(w warehouse, a action, rows int) error {
	if !w.far {
		return p.fill(w, a, rows)
	}
	if !p.prepared {
		if _, err := p.hand(w, source(w, "delta", 0, 10, 0)+source(w, "base", 0, rows, 0)); err != nil {
			return err
		}
		if _, err := p.run("run", "--pipeline", "PREPARE"); err != nil {
			return err
		}
		p.prepared = true
	}
	return p.fill(w, a, rows)
}

// fill gives both targets their first rows, once more where they have had them.
func (p *project) fill(w warehouse, a action, rows int) error {
	if !w.far {
		if _, err := p.hand(w, source(w, "delta", 0, rows, 0)); err != nil {
			return err
		}
		_, err := p.run("run", "--pipeline", "PREPARE_"+a.name)
		return err
	}
	text := ""
	for _, target := range []string{"engine", "hand"} {
		one, err := statements(w, a.filler().file(), subject{w.in(target) + "." + a.table(), w.in("src") + ".base"})
		if err != nil {
			return err
		}
		text += one
	}
	_, err := p.hand(w, text)
	return err
}

// measure runs an action and its hand-written twin in turns, and makes sure that they leave the same rows.
func (p *project) measure(w warehouse, a action, until time.Time) (engine, hand []cost, err error) {
	b := p.b
	ours, theirs := w.in("engine")+"."+a.table(), w.in("hand")+"."+a.table()
	twin, err := statements(w, a.file(), subject{theirs, w.in("src") + ".delta"})
	if err != nil {
		return nil, nil, err
	}
	if err := p.prepare(w, a, b.rows); err != nil {
		return nil, nil, err
	}
	for i := range b.repeat {
		began := time.Now()
		if a.refill && i > 0 {
			if err := p.fill(w, a, b.rows); err != nil {
				return nil, nil, err
			}
		}
		// Half of the rows changed, three tenths as they were, one fifth new; all of them there for a deletion.
		first := b.rows + i*b.stage/5 - b.stage*4/5
		if a.name == "DELETE_ROWS" {
			first = i * b.stage
		}
		if _, err := p.hand(w, source(w, "delta", first, b.stage, i+1)+settled(w, ours, theirs)); err != nil {
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
		if _, err := p.hand(w, same(a, ours, theirs)); err != nil {
			return nil, nil, err
		}
		if !until.IsZero() && time.Now().Add(time.Since(began)).After(until) {
			break
		}
	}
	return engine, hand, nil
}

// subject is what a file of hand-written SQL is about.
type subject struct{ Target, Source string }

func statements(w warehouse, file string, about subject) (string, error) {
	t, err := template.ParseFS(handWritten, "sql/"+w.name+"/"+file)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = t.Execute(&text, about)
	return text.String(), err
}

// source makes a table: n rows with ids from first on. Of the first eight tenths, those whose id is not divided by 8
// below 3 differ from round to round.
func source(w warehouse, table string, first, n, round int) string {
	name := w.in("src") + "." + table
	text := "DROP TABLE IF EXISTS " + name + ";\n"
	if !w.far {
		text = "CREATE SCHEMA IF NOT EXISTS " + w.in("src") + ";\n" + text
	}
	str, from := "varchar", fmt.Sprintf("generate_series(%d, %d) AS r (i)", first, first+n-1)
	switch w.name {
	case "trino":
		from = fmt.Sprintf("(SELECT %d + 10000 * a + b AS i FROM UNNEST(sequence(0, %d)) AS x (a) CROSS JOIN UNNEST(sequence(0, 9999)) AS y (b) WHERE 10000 * a + b < %d) AS r",
			first, (n-1)/10000, n)
	case "databricks":
		str, from = "string", fmt.Sprintf("(SELECT id AS i FROM range(%d, %d)) AS r", first, first+n)
	}
	return text + fmt.Sprintf(`CREATE TABLE %[1]s AS
SELECT
  CAST(i AS bigint) AS id,
  CAST('customer ' || CAST(i AS %[2]s) || CASE WHEN i %% 8 < 5 THEN ' in round %[3]d' ELSE '' END AS %[2]s) AS name,
  CAST(CASE WHEN i %% 10 = 0 THEN NULL ELSE 'city ' || CAST(i %% 1000 AS %[2]s) END AS %[2]s) AS city,
  CAST(i %% 97 AS integer) AS qty,
  CAST(i %% 10000 / 100.0 AS decimal(12, 2)) AS amount
FROM %[4]s;
`, name, str, round, from)
}

// settled lets the warehouse do what it would else do in the background of a measured run.
func settled(w warehouse, tables ...string) string {
	if w.far {
		return ""
	}
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
	return fmt.Sprintf(`SELECT CAST(CASE WHEN n = 0 THEN '1' ELSE CAST(n AS varchar(20)) || ' kinds of rows differ between %[2]s and %[3]s' END AS integer)
FROM (
  SELECT count(*) AS n
  FROM (
    SELECT %[1]s
    FROM (SELECT %[1]s, 1 AS side FROM %[2]s UNION ALL SELECT %[1]s, -1 AS side FROM %[3]s) AS both_sides
    GROUP BY %[1]s
    HAVING sum(side) <> 0
  ) AS differences
) AS compared;
`, a.compared, left, right)
}
