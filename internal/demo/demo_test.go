package demo

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
	"go.yaml.in/yaml/v3"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// pipelineFile is as much of a pipeline file as the tests read.
type pipelineFile struct {
	Pipeline string
	Tasks    []struct {
		Task      string
		DependsOn []any `yaml:"depends_on"`
		Params    map[string]any
	}
}

// task is one task with the text of its SELECT.
type task struct {
	name, action, target, source string
	key, compare                 []string
	params                       map[string]any
}

func readPipeline(t *testing.T, dir, code string) []task {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pipelines", code+".yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file pipelineFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.Pipeline != code {
		t.Fatalf("%s.yml declares %s", code, file.Pipeline)
	}
	var tasks []task
	for _, declared := range file.Tasks {
		for _, edge := range declared.DependsOn {
			name := fmt.Sprint(edge)
			if long, ok := edge.(map[string]any); ok {
				name = fmt.Sprint(long["task"])
			}
			if !slices.ContainsFunc(tasks, func(earlier task) bool { return earlier.name == name }) {
				t.Errorf("%s.%s depends on %s, which does not stand above it", code, declared.Task, name)
			}
		}
		tasks = append(tasks, task{
			name:    declared.Task,
			action:  scalar(declared.Params["SQL_ACTION"]),
			target:  scalar(declared.Params["TARGET_OBJECT"]),
			source:  readSource(t, dir, declared.Params),
			key:     list(declared.Params["MERGE_KEY"]),
			compare: list(declared.Params["MERGE_COMPARE_COLUMNS"]),
			params:  declared.Params,
		})
	}
	return tasks
}

func readSource(t *testing.T, dir string, params map[string]any) string {
	t.Helper()
	if inline := scalar(params["SOURCE_SQL"]); inline != "" {
		return inline
	}
	name := scalar(params["SOURCE_SQL_FILE"])
	if name == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(dir, "sql_files", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func scalar(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func list(value any) []string {
	var names []string
	switch v := value.(type) {
	case []any:
		for _, name := range v {
			names = append(names, fmt.Sprint(name))
		}
	case string:
		names = append(names, v)
	}
	return names
}

// runner performs the actions in the plainest SQL there is. It keeps pipeline_run_id, delete_flag and active_flag,
// the engine's columns that the demo's SELECTs and queries read.
type runner struct {
	t   *testing.T
	db  *sql.DB
	run int64
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	db, err := sql.Open("duckdb", filepath.Join(t.TempDir(), "warehouse.duckdb"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // temporary tables belong to their connection
	return &runner{t: t, db: db}
}

func (r *runner) exec(statement string) int64 {
	r.t.Helper()
	result, err := r.db.Exec(statement)
	if err != nil {
		r.t.Fatalf("%v in\n%s", err, statement)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}

func (r *runner) number(query string) int64 {
	r.t.Helper()
	var n int64
	if err := r.db.QueryRow(query).Scan(&n); err != nil {
		r.t.Fatalf("%v in\n%s", err, query)
	}
	return n
}

func (r *runner) columns(query string) []string {
	r.t.Helper()
	rows, err := r.db.Query("SELECT column_name FROM (DESCRIBE " + query + ")")
	if err != nil {
		r.t.Fatalf("%v in\n%s", err, query)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			r.t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return names
}

// replaceTokens wants each token's switch set exactly when the SELECT has the token.
func (r *runner) replaceTokens(k task, date string) string {
	r.t.Helper()
	text := k.source
	for _, token := range []struct{ name, enabledBy, value string }{
		{"$$run_date", "RUN_DATE_SUBSTITUTION", "DATE '" + date + "'"},
		{"$$pipeline_run_id_filter", "PIPELINE_RUN_ID_FILTER", fmt.Sprintf("pipeline_run_id = %d", r.run)},
	} {
		enabled := k.params[token.enabledBy] == true
		if strings.Contains(text, token.name) != enabled {
			r.t.Errorf("%s: token %s and switch %s do not agree", k.name, token.name, token.enabledBy)
		}
		text = strings.ReplaceAll(text, token.name, token.value)
	}
	if strings.Contains(text, "$$") {
		r.t.Errorf("%s: token left in\n%s", k.name, text)
	}
	return text
}

// perform runs one task and gives the rows that it wrote.
func (r *runner) perform(k task, date string) int64 {
	r.t.Helper()
	r.exec("CREATE SCHEMA IF NOT EXISTS " + strings.Split(k.target, ".")[0])
	if k.action == "DROP_TABLE" {
		r.exec("DROP TABLE " + k.target)
		return 0
	}
	source := r.replaceTokens(k, date)
	columns := r.columns(source)
	for _, name := range columns {
		if slices.Contains(engineColumns, name) || name != strings.ToLower(name) {
			r.t.Errorf("%s returns column %s", k.name, name)
		}
	}
	for _, name := range slices.Concat(k.key, k.compare) {
		if !slices.Contains(columns, name) {
			r.t.Errorf("%s: column %s is not among %v", k.name, name, columns)
		}
	}
	r.exec("CREATE OR REPLACE TEMP TABLE stage AS " + source)
	shape := fmt.Sprintf("SELECT *, %d::BIGINT AS pipeline_run_id, 'N' AS delete_flag, 'Y' AS active_flag FROM stage", r.run)
	switch k.action {
	case "CREATE_TABLE":
		r.exec("CREATE OR REPLACE TABLE " + k.target + " AS " + shape)
		return r.number("SELECT count(*) FROM " + k.target)
	case "SETUP_TABLE":
		r.exec("CREATE TABLE IF NOT EXISTS " + k.target + " AS " + shape + " LIMIT 0")
		return 0
	case "APPEND_TABLE":
		return r.exec("INSERT INTO " + k.target + " BY NAME " + shape)
	case "OVERWRITE_TABLE":
		r.exec("DELETE FROM " + k.target)
		return r.exec("INSERT INTO " + k.target + " BY NAME " + shape)
	case "DELETE_ROWS":
		return r.exec("UPDATE " + k.target + " AS target SET delete_flag = 'Y' FROM stage WHERE " + same(k.key))
	case "SCD1_MERGE", "SCD2_MERGE":
		return r.merge(k, shape)
	}
	r.t.Fatalf("%s: unknown action %q", k.name, k.action)
	return 0
}

func (r *runner) merge(k task, shape string) int64 {
	r.t.Helper()
	keys := strings.Join(k.key, ", ")
	if n := r.number("SELECT count(*) - count(DISTINCT (" + keys + ")) FROM stage"); n != 0 {
		r.t.Errorf("%s: %d repeated keys", k.name, n)
	}
	for _, name := range k.key {
		if n := r.number("SELECT count(*) FROM stage WHERE " + name + " IS NULL"); n != 0 {
			r.t.Errorf("%s: %d rows without %s", k.name, n, name)
		}
	}
	for _, name := range k.compare {
		floating := "SELECT count(*) FROM (DESCRIBE stage) WHERE column_name = '" + name + "' AND column_type IN ('FLOAT', 'DOUBLE')"
		if r.number(floating) != 0 {
			r.t.Errorf("%s compares the floating-point column %s", k.name, name)
		}
	}
	r.exec(`CREATE OR REPLACE TEMP TABLE changed AS SELECT stage.* FROM stage JOIN ` + k.target + ` AS target ON ` +
		same(k.key) + ` AND target.active_flag = 'Y' WHERE (` + qualified("stage", k.compare) +
		`) IS DISTINCT FROM (` + qualified("target", k.compare) + `)`)
	replaced := "DELETE FROM " + k.target + " AS target USING changed AS stage WHERE " + same(k.key)
	if k.action == "SCD2_MERGE" {
		replaced = "UPDATE " + k.target + " AS target SET active_flag = 'N' FROM changed AS stage WHERE " +
			same(k.key) + " AND target.active_flag = 'Y'"
	}
	return r.exec(replaced) + r.exec("INSERT INTO "+k.target+" BY NAME SELECT * FROM ("+shape+") AS stage WHERE NOT EXISTS (SELECT 1 FROM "+
		k.target+" AS target WHERE "+same(k.key)+" AND target.active_flag = 'Y')")
}

func same(columns []string) string {
	var parts []string
	for _, name := range columns {
		parts = append(parts, "target."+name+" = stage."+name)
	}
	return strings.Join(parts, " AND ")
}

func qualified(table string, columns []string) string {
	return table + "." + strings.Join(columns, ", "+table+".")
}

var engineColumns = []string{
	"pipeline_id", "pipeline_run_id", "task_run_id", "row_id", "hash_key", "create_date", "created_by", "update_date",
	"updated_by", "delete_flag", "active_flag",
}

// TestWeek runs every task of every day, from a working directory that is not the project's.
func TestWeek(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's [a] demo")
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t)
	used := map[string]bool{}
	for _, day := range Days() {
		for _, code := range Pipelines() {
			r.run++
			for _, k := range readPipeline(t, dir, code) {
				rows := r.perform(k, day)
				used[k.action] = true
				t.Logf("%s %-20s %-15s %5d", day, k.name, k.action, rows)
				idle := k.action == "SETUP_TABLE" || k.action == "DROP_TABLE" || k.name == "load_airports"
				if rows == 0 && !idle {
					t.Errorf("%s: %s wrote nothing", day, k.name)
				}
			}
		}
	}
	if len(used) != 8 {
		t.Errorf("the demo shows %d of the eight actions: %v", len(used), used)
	}

	for query, want := range map[string]int64{
		"SELECT count(*) FROM core.schedule":                                                     6104,
		"SELECT count(*) FROM core.schedule WHERE delete_flag = 'Y'":                             929,
		"SELECT count(*) FROM core.flights":                                                      6104 - 929,
		"SELECT count(*) FROM core.airports":                                                     95,
		"SELECT count(*) FROM core.airports WHERE name IS NULL":                                  4,
		"SELECT count(*) FROM core.planes":                                                       1871,
		"SELECT count(*) FROM core.plane_bases WHERE active_flag = 'Y'":                          1871,
		"SELECT count(*) FROM mart.daily_summary":                                                21,
		"SELECT count(*) FROM mart.daily_summary WHERE strongest_wind IS NULL":                   0,
		"SELECT sum(cancelled)::BIGINT FROM mart.daily_summary WHERE flight_date='2013-02-08'":   472,
		"SELECT count(*) FROM core.planes WHERE flights_that_day < 1 OR last_flown < '2013-2-4'": 0,
	} {
		if got := r.number(query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	if n := r.number("SELECT count(*) FROM core.plane_bases WHERE active_flag = 'N'"); n < 100 {
		t.Errorf("only %d planes moved: the demo shows no history", n)
	}

	for _, query := range Queries() {
		t.Logf("%s: %v", query.Title, r.columns(query.SQL))
		if n := r.number("SELECT count(*) FROM (" + query.SQL + ")"); n < 3 {
			t.Errorf("%q has %d rows", query.Title, n)
		}
	}
}

// TestInit runs the project a new user gets, changes a city and expects both versions.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	if err := WriteInit(dir); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t)
	tasks := readPipeline(t, dir, "SHOP")
	if len(tasks) != 3 {
		t.Fatalf("%d tasks, want 3", len(tasks))
	}
	for _, run := range []struct{ city, name string }{{"London", "first"}, {"Turin", "second"}} {
		r.run++
		for _, k := range tasks {
			k.source = strings.Replace(k.source, "'London'", "'"+run.city+"'", 1)
			r.perform(k, "2026-01-01")
		}
	}
	if n := r.number("SELECT count(*) FROM shop.customers"); n != 4 {
		t.Errorf("%d versions, want 4", n)
	}
	if n := r.number("SELECT count(*) FROM shop.customers WHERE city = 'London' AND active_flag = 'N'"); n != 1 {
		t.Errorf("the old version of the changed customer is not closed")
	}
}

// TestFiles wants every SELECT used, the files private, and no file of the user overwritten.
func TestFiles(t *testing.T) {
	for name, write := range map[string]func(string) error{"demo": Write, "init": WriteInit} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := write(dir); err != nil {
				t.Fatal(err)
			}
			var pipelines strings.Builder
			err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return err
				}
				if info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
				text, err := os.ReadFile(path)
				if strings.HasSuffix(path, ".yml") {
					pipelines.Write(text)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			sources, err := filepath.Glob(filepath.Join(dir, "sql_files", "*", "*.sql"))
			if err != nil || len(sources) == 0 {
				t.Fatalf("no sql_files: %v", err)
			}
			for _, path := range sources {
				if name := filepath.Base(path); !strings.Contains(pipelines.String(), "/"+name) {
					t.Errorf("no task uses %s", name)
				}
			}

			var config map[string]any
			text, err := os.ReadFile(filepath.Join(dir, "etl-craft.yml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(text, &config); err != nil {
				t.Fatal(err)
			}

			if err := write(dir); !fault.Has(err, fault.FileExists) {
				t.Errorf("a second time into the same folder: %v", err)
			}
		})
	}
}

// TestOccupiedFolder wants nothing written beside a file of the user, and a .gitignore kept.
func TestOccupiedFolder(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "etl-craft.yml")
	if err := os.WriteFile(own, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir); !fault.Has(err, fault.FileExists) {
		t.Fatalf("got %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("files were written: %v %v", entries, err)
	}

	dir = t.TempDir()
	ignore := filepath.Join(dir, ".gitignore")
	if err := os.WriteFile(ignore, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteInit(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(ignore); err != nil || string(text) != "mine" {
		t.Errorf(".gitignore is now %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pipelines", "SHOP.yml")); errors.Is(err, fs.ErrNotExist) {
		t.Error("the project was not written")
	}
}
