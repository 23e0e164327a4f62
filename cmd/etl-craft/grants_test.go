package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/engine/store/storetest"
)

// granted is a project on PostgreSQL whose roles have what doctor --grants prints, and nothing else.
type granted struct {
	t       *testing.T
	server  string // as a superuser
	name    string // of the schema, and in the names of databases
	dir     string
	webhook string
	roles   map[string]engine.GrantedRole // by what follows the schema's name: migrate, run, purge, read, load
}

const grantedPipelines = `
RAW:
refresh_type: FULL
tasks:
  - task: land
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: raw.orders, SOURCE_SQL: "SELECT id, city FROM src.orders"}
EIGHT:
refresh_type: FULL
depends_on: [RAW]
tasks:
  - task: made
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.made, SOURCE_SQL: SELECT 1 AS a}
  - task: dropped
    depends_on: [made]
    params: {SQL_ACTION: DROP_TABLE, TARGET_OBJECT: mart.made}
  - task: setup_history
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: mart.history, SOURCE_SQL: "SELECT id, city FROM raw.orders"}
  - task: history
    depends_on: [setup_history]
    params: {SQL_ACTION: SCD2_MERGE, TARGET_OBJECT: mart.history, SOURCE_SQL: "SELECT id, city FROM raw.orders", MERGE_KEY: id, MERGE_COMPARE_COLUMNS: city}
  - task: setup_current
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: mart.current, SOURCE_SQL: "SELECT id, city FROM raw.orders"}
  - task: current
    depends_on: [setup_current]
    params: {SQL_ACTION: SCD1_MERGE, TARGET_OBJECT: mart.current, SOURCE_SQL: "SELECT id, city FROM raw.orders", MERGE_KEY: id, MERGE_COMPARE_COLUMNS: city}
  - task: gone
    depends_on: [current]
    params: {SQL_ACTION: DELETE_ROWS, TARGET_OBJECT: mart.current, SOURCE_SQL: "SELECT id FROM raw.orders WHERE id = 1", MERGE_KEY: id}
  - task: setup_days
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: mart.days, SOURCE_SQL: "SELECT id FROM raw.orders", SETUP_FOR: OVERWRITE_TABLE}
  - task: days
    depends_on: [setup_days]
    params: {SQL_ACTION: OVERWRITE_TABLE, TARGET_OBJECT: mart.days, SOURCE_SQL: "SELECT id FROM raw.orders"}
  - task: setup_log
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: mart.log, SOURCE_SQL: "SELECT id FROM raw.orders", SETUP_FOR: APPEND_TABLE}
  - task: log
    depends_on: [setup_log]
    params: {SQL_ACTION: APPEND_TABLE, TARGET_OBJECT: mart.log, SOURCE_SQL: "SELECT id FROM raw.orders"}
HALF:
refresh_type: FULL
tasks:
  - task: first
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.first, SOURCE_SQL: SELECT 1 AS a}
  - task: second
    depends_on: [first, {task: SIDE.only, on: HAS_DATA}]
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.second, SOURCE_SQL: SELECT 1 AS a}
SIDE:
refresh_type: FULL
tasks:
  - task: only
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.side, SOURCE_SQL: SELECT 1 AS a}
WAITS:
refresh_type: FULL
depends_on: [HALF]
tasks:
  - task: only
    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.only, SOURCE_SQL: SELECT 1 AS a}
`

// TestGrants runs what people do with roles that have exactly the privileges that doctor --grants prints, and takes away one
// after the other: each is missed by something.
func TestGrants(t *testing.T) {
	if os.Getenv(storetest.DSNs) == "" {
		t.Skipf("$%s names no servers", storetest.DSNs)
	}
	t.Parallel()
	servers := strings.Split(os.Getenv(storetest.DSNs), ",")
	for i, server := range servers {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			g := newGranted(t, server, i == 0)
			whole := g.clone(g.name, "whole")
			if err := g.work(whole); err != nil {
				t.Fatal(err)
			}
			g.age(whole)
			for _, role := range []string{"read", "purge"} {
				if err := g.as(role, g.clone(whole, role)); err != nil {
					t.Fatalf("%s: %v", role, err)
				}
			}
			if i < len(servers)-1 {
				return // one server shows what is missed
			}
			g.missesEach("run", g.name, g.work)
			g.missesEach("load", g.name, g.work)
			g.missesEach("read", whole, func(db string) error { return g.as("read", db) })
			g.missesEach("purge", whole, func(db string) error { return g.as("purge", db) })
		})
	}
}

// newGranted makes the database that others are cloned from: migrated by the role for that, with one schema to read from. With
// handOver somebody else has migrated before.
func newGranted(t *testing.T, server string, handOver bool) *granted {
	g := &granted{t: t, server: server, name: fmt.Sprintf("granted_%d_%d", os.Getpid(), time.Now().UnixNano()), dir: t.TempDir(), roles: map[string]engine.GrantedRole{}}
	webhook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(webhook.Close)
	g.webhook = webhook.URL
	g.exec("", "CREATE DATABASE "+g.name)
	t.Cleanup(func() {
		g.exec("", "DROP DATABASE "+g.name+" WITH (FORCE)")
		for _, role := range []string{"purge", "run", "read", "load", "migrate"} {
			g.exec("", "DROP ROLE IF EXISTS "+g.name+"_"+role)
		}
	})
	g.exec(g.name, "CREATE SCHEMA src", "CREATE TABLE src.orders AS SELECT n AS id, 'Rome' AS city FROM generate_series(1, 3) AS n")
	g.write(g.name, "", "")
	if handOver {
		if err := g.run("migrate"); err != nil {
			t.Fatal(err)
		}
	}
	g.exec(g.name, g.printed()["migrate"].Statements...)
	g.file("migrations/0001_own.sql", "-- +goose Up\nALTER TABLE CFG_PIPELINES ADD COLUMN NOTE TEXT;\nCREATE OR REPLACE VIEW ENGINE_TASK_NAMES AS SELECT t.TASK_ID, t.PIPELINE_ID, "+
		"p.PIPELINE_CODE || '.' || t.TASK_CODE AS TASK_NAME FROM CFG_TASKS t JOIN CFG_PIPELINES p ON p.PIPELINE_ID = t.PIPELINE_ID;\nALTER FUNCTION STAMP_ROW() COST 200;\n")
	g.write(g.name, "migrate", "load")
	if err := g.run("migrate"); err != nil {
		t.Fatal(err)
	}
	g.write(g.name, "", "")
	if err := g.run("apply"); err != nil {
		t.Fatal(err)
	}
	for role, made := range g.printed() {
		g.roles[role] = made
	}
	for _, role := range []string{"run", "purge", "read", "load"} {
		g.exec(g.name, g.roles[role].Statements...)
	}
	return g
}

// printed is what doctor --grants prints, by the kinds of roles.
func (g *granted) printed() map[string]engine.GrantedRole {
	g.t.Helper()
	out, err := g.output("doctor", "--grants", "-o", "json")
	if err != nil {
		g.t.Fatal(err)
	}
	var doc engine.GrantsDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		g.t.Fatal(err)
	}
	roles := map[string]engine.GrantedRole{}
	for _, r := range append(doc.Engine.Roles, doc.Warehouse.Roles...) {
		roles[strings.TrimPrefix(r.Role, g.name+"_")] = r
	}
	return roles
}

// clone copies a database, which nobody may be connected to, and gives its own privileges anew, as a copy has none of them.
func (g *granted) clone(from, what string) string {
	g.t.Helper()
	name := g.name + "_" + what
	g.exec("", "CREATE DATABASE "+name+" TEMPLATE "+from, "REVOKE ALL ON DATABASE "+name+" FROM PUBLIC")
	g.t.Cleanup(func() { g.exec("", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	for _, role := range g.roles {
		for _, statement := range role.Statements {
			if strings.Contains(statement, " ON DATABASE ") {
				g.exec("", strings.ReplaceAll(statement, `"`+g.name+`"`, `"`+name+`"`))
			}
		}
	}
	return name
}

func (g *granted) exec(database string, statements ...string) {
	g.t.Helper()
	db, err := sql.Open("pgx", g.url(database, ""))
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			g.t.Fatalf("%v\n%s", err, statement)
		}
	}
}

// url is the address of a database for a role; "" is the server's own database and its superuser.
func (g *granted) url(database, role string) string {
	address, err := url.Parse(g.server)
	if err != nil {
		g.t.Fatal(err)
	}
	if database != "" {
		address.Path = "/" + database
	}
	if role != "" {
		address.User = url.User(g.name + "_" + role)
	}
	return address.String()
}

// write makes the project, for a role in the Engine DB and one in the warehouse.
func (g *granted) write(database, engineRole, loadRole string) {
	g.t.Helper()
	files := map[string]string{"etl-craft.yml": fmt.Sprintf(`
profiles:
  test:
    engine: {type: postgres, url: "%s", schema: %s}
    warehouse: {type: postgres, url: "%s"}
    notifications:
      ops: {url: "%s", secret: s, on: [SUCCESS, FAILED]}
`, g.url(database, engineRole), g.name, g.url(database, loadRole), g.webhook)}
	code := ""
	for line := range strings.Lines(strings.TrimSpace(grantedPipelines) + "\n") {
		if line[0] >= 'A' && line[0] <= 'Z' {
			code = strings.TrimSuffix(line, ":\n")
			line = "pipeline: " + code + "\n"
		}
		files["pipelines/"+code+".yml"] += line
	}
	for name, text := range files {
		g.file(name, text)
	}
}

func (g *granted) file(name, text string) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// run carries out a command in this process; the error is what it said.
func (g *granted) run(args ...string) error {
	_, err := g.output(args...)
	return err
}

func (g *granted) output(args ...string) (string, error) {
	out, err := os.CreateTemp(g.dir, "out")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(out.Name()); _ = out.Close() }()
	said, err := os.CreateTemp(g.dir, "err")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(said.Name()); _ = said.Close() }()
	code := newProgram(out, said).run(append(args, "--config", g.dir, "--log-level", "error"))
	text, err := os.ReadFile(out.Name())
	if err != nil || code == 0 {
		return string(text), err
	}
	why, err := os.ReadFile(said.Name())
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: exit %d: %s%s", strings.Join(args, " "), code, text, why)
}

// all runs commands until one fails.
func (g *granted) all(commands ...string) error {
	for _, c := range commands {
		if err := g.run(strings.Fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

// work is what the role run does, with the role load in the warehouse.
func (g *granted) work(database string) error {
	g.write(database, "run", "load")
	more := func(name, upstream, extra string) {
		g.file("pipelines/MORE.yml", "pipeline: MORE\nname: "+name+"\nrefresh_type: FULL\n"+upstream+"tasks:\n"+
			"  - task: a\n    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.a, SOURCE_SQL: SELECT 1 AS a"+extra)
	}
	more("first", "depends_on: [RAW]\n", ", X_NOTE: x}\n  - task: b\n    depends_on: [a]\n    params: {SQL_ACTION: CREATE_TABLE, TARGET_OBJECT: mart.b, SOURCE_SQL: SELECT 1 AS b}\n")
	if err := g.all("apply"); err != nil {
		return err
	}
	more("second", "", "}\n")
	err := g.all("apply", "validate", "doctor", "plan --pipeline RAW",
		"run --pipeline RAW", "run --pipeline EIGHT", "run --pipeline RAW", "run --pipeline EIGHT",
		"rehash --target mart.history", "upgrade-targets", "run --pipeline SIDE",
		"run --pipeline HALF --task first", "mark --pipeline HALF --task second --status SUCCESS --reason x",
		"pause --pipeline HALF --reason x", "resume --pipeline HALF",
		"run --pipeline HALF --task first", "skip --pipeline HALF --task second --reason x",
		"list", "graph --pipeline EIGHT", "history --pipeline EIGHT", "status --pipeline EIGHT", "explain --pipeline EIGHT --task history", "locks",
		"audit", "notifications --deliver", "reconcile", "doctor --fix",
		"run --pipeline HALF --task first")
	if err != nil {
		return err
	}
	// A run that waits for one that is cancelled meanwhile.
	var waiting sync.WaitGroup
	var waited error
	waiting.Go(func() { waited = g.run("run", "--pipeline", "WAITS") })
	waits := "SELECT count(*) FROM " + g.name + ".AUD_GATE_WAITS"
	for g.number(database, waits) == 0 {
		ended := make(chan struct{})
		go func() { waiting.Wait(); close(ended) }()
		select {
		case <-ended:
			return waited
		case <-time.After(20 * time.Millisecond):
		}
	}
	err = g.all("cancel --pipeline HALF --reason x")
	waiting.Wait()
	return errors.Join(err, waited)
}

func (g *granted) number(database, query string) (n int) {
	g.t.Helper()
	db, err := sql.Open("pgx", g.url(database, ""))
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// age makes everything that happened old, but for two runs: one waits for its second task, in one a process works.
func (g *granted) age(database string) {
	if err := g.run("run", "--pipeline", "HALF", "--task", "first"); err != nil {
		g.t.Fatal(err)
	}
	statements := []string{"SET session_replication_role = replica"} // past the triggers that keep it as it was
	for table, columns := range map[string]string{
		"AUD_PIPELINES_RUN_LOG": "START_DATE END_DATE", "AUD_GATE_DECISIONS": "DECIDED_AT", "AUD_GATE_WAITS": "FIRST_CHECK_AT WAIT_UNTIL",
		"AUD_PIPELINE_PAUSES": "PAUSED_AT RESUMED_AT", "AUD_ACTIONS": "STARTED_AT ENDED_AT", "AUD_DEPENDENCY_CONSUMPTION": "CONSUMED_AT",
	} {
		for _, c := range strings.Fields(columns) {
			statements = append(statements, fmt.Sprintf("UPDATE %s.%s SET %s = %[3]s - interval '100 days'", g.name, table, c))
		}
	}
	const works = "OWNER_ID = 'elsewhere:1:x', LEASE_EXPIRES_AT = now() + interval '1 hour'"
	ofWaits := " WHERE PIPELINE_RUN_ID = (SELECT MAX(PIPELINE_RUN_ID) FROM " + g.name + ".AUD_PIPELINES_RUN_LOG JOIN " + g.name + ".CFG_PIPELINES USING (PIPELINE_ID) WHERE PIPELINE_CODE = 'WAITS')"
	g.exec(database, append(statements,
		"UPDATE "+g.name+".AUD_PIPELINES_RUN_LOG SET STATUS = 'IN_PROGRESS', END_DATE = NULL, "+works+ofWaits,
		"UPDATE "+g.name+".AUD_TASK_RUN_LOG SET STATUS = 'IN_PROGRESS', END_DATE = NULL"+ofWaits,
		"UPDATE "+g.name+".AUD_TASK_ATTEMPTS SET STATUS = 'RUNNING', ENDED_AT = NULL, "+works+" WHERE TASK_RUN_ID = (SELECT TASK_RUN_ID FROM "+g.name+".AUD_TASK_RUN_LOG"+ofWaits+")")...)
}

// as is what the roles read and purge do where much has happened.
func (g *granted) as(role, database string) error {
	g.write(database, role, "load")
	if role == "purge" {
		return g.all("purge --older-than 90d")
	}
	return g.all("list", "graph --pipeline EIGHT", "history --pipeline EIGHT", "status --pipeline EIGHT",
		"explain --pipeline EIGHT --task history", "explain --pipeline HALF --task second", "explain --pipeline WAITS --task only", "locks", "audit --since 200d", "notifications")
}

var grantPattern = regexp.MustCompile(`^GRANT (.+?)( ON .+)? TO (.+)$`)

// missesEach takes each privilege of a role away, one at a time, in a copy of a database, and expects that something fails.
func (g *granted) missesEach(role, from string, do func(database string) error) {
	db := ""
	for _, statement := range g.roles[role].Statements {
		m := grantPattern.FindStringSubmatch(statement)
		if m == nil {
			continue
		}
		for _, privilege := range strings.Split(m[1], ", ") {
			if db == "" || role != "read" { // which leaves all as it was
				if db != "" {
					g.exec("", "DROP DATABASE "+db+" WITH (FORCE)")
				}
				db = g.clone(from, "less_"+role)
			}
			on := strings.ReplaceAll(m[2], `DATABASE "`+g.name+`"`, `DATABASE "`+db+`"`)
			g.exec(db, "REVOKE "+privilege+on+" FROM "+m[3])
			if err := do(db); err == nil {
				g.t.Errorf("%s: nothing fails without %s%s", role, privilege, m[2])
			}
			g.exec(db, "GRANT "+privilege+on+" TO "+m[3])
		}
	}
}
