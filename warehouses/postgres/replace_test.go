package postgres

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

const firstTaskRun = 1000

// attempt makes an attempt of a task run of its own.
func attempt(params map[string]string) *handlers.Attempt {
	task := store.Task{ID: 11, Code: "task", Handler: "SQL", Params: params}
	return &handlers.Attempt{
		Task:          handlers.Task{Task: task, Pipeline: store.Pipeline{ID: 3, Code: "P", RefreshType: "INCREMENTAL"}, Siblings: []store.Task{task}},
		PipelineRunID: 97, TaskRunID: firstTaskRun + number.Add(1), AttemptID: 1, Number: 1, Token: "9f3a",
		RunDate: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), Instant: time.Now().UTC().Truncate(time.Microsecond),
		Log:      slog.New(slog.DiscardHandler),
		Hold:     func(context.Context, locks.Key, locks.Holder) error { return nil },
		Settle:   func(context.Context, store.Attempt, bool) error { return nil },
		Advance:  func(context.Context, store.Progress) error { return nil },
		SavePlan: func(*warehouses.Plan, string) error { return nil },
		Report:   func(string) {},
	}
}

func environment(w warehouses.Warehouse) *handlers.Env {
	return &handlers.Env{Dialect: Dialect, Warehouse: w, CountTarget: true, TableFormat: warehouses.FormatNative,
		TargetRecord: func(context.Context, store.TargetName) (store.TargetRecord, error) {
			return store.TargetRecord{Known: true}, nil
		}}
}

func run(t *testing.T, w warehouses.Warehouse, pairs ...string) error {
	t.Helper()
	params := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		params[pairs[i]] = pairs[i+1]
	}
	_, err := sql.Handler{}.Run(t.Context(), environment(w), attempt(params))
	return err
}

func createTable(t *testing.T, w warehouses.Warehouse, target, source string) error {
	t.Helper()
	return run(t, w, "SQL_ACTION", "CREATE_TABLE", "TARGET_OBJECT", target, "SOURCE_SQL", source)
}

// rights is what a table has that CREATE_TABLE carries over.
const rights = `SELECT pg_get_userbyid(relowner), obj_description(oid, 'pg_class'),
  (SELECT string_agg(g.grantee::regrole || ' ' || g.privilege_type || ' ' || g.is_grantable, ', ' ORDER BY g.grantee::regrole::text, g.privilege_type) FROM aclexplode(relacl) AS g WHERE g.grantee <> relowner)
FROM pg_class WHERE oid = $1::text::regclass`

// TestReplacementKeepsRights: owner, grants and comment stay, whatever default privileges would add, and ids go on.
func TestReplacementKeepsRights(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		admin := connect(t, open(t, Options{URL: address}))
		s := admin.schema()
		owners, loader, reader, writer := admin.role(), admin.role(), admin.role(), admin.role()
		admin.exec("GRANT "+owners+" TO "+loader, "GRANT ALL ON SCHEMA "+s+" TO "+owners+", "+loader,
			"ALTER DEFAULT PRIVILEGES FOR ROLE "+loader+" IN SCHEMA "+s+" GRANT ALL ON TABLES TO "+writer+", PUBLIC")
		w := open(t, Options{URL: withUser(t, address, loader)})
		target := s + ".t"
		if err := createTable(t, w, target, "SELECT i AS a FROM generate_series(1, 3) AS i"); err != nil {
			t.Fatal(err)
		}
		admin.exec("REVOKE ALL ON "+target+" FROM "+writer+", PUBLIC", "ALTER TABLE "+target+" OWNER TO "+owners,
			"GRANT SELECT ON "+target+" TO "+reader+" WITH GRANT OPTION", "GRANT INSERT, UPDATE ON "+target+" TO "+reader, "GRANT SELECT ON "+target+" TO PUBLIC",
			"COMMENT ON TABLE "+target+" IS 'it''s\nours'")
		before, err := admin.query(t.Context(), rights, target)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"4", "7"} {
			if err := createTable(t, w, target, "SELECT i AS a FROM generate_series(1, 3) AS i"); err != nil {
				t.Fatal(err)
			}
			after, err := admin.query(t.Context(), rights, target)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
			if got := admin.value("SELECT min(row_id) FROM " + target); got != want {
				t.Errorf("the first ROW_ID is %s, want %s", got, want)
			}
		}
	})
}

func TestReplacementRefused(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		admin := connect(t, open(t, Options{URL: address}))
		s := admin.schema()
		loader := admin.role()
		admin.exec("GRANT ALL ON SCHEMA "+s+" TO "+loader,
			"CREATE TABLE "+s+".foreign_owner (a integer)", "GRANT ALL ON "+s+".foreign_owner TO "+loader,
			"CREATE TABLE "+s+".seen (a integer)", "CREATE VIEW "+s+".v AS SELECT a FROM "+s+".seen",
			"CREATE TABLE "+s+".parts (a integer) PARTITION BY RANGE (a)")
		w := open(t, Options{URL: withUser(t, address, loader)})
		if err := createTable(t, w, s+".foreign_owner", "SELECT 1 AS a"); !fault.Has(err, fault.TargetNotOwned) {
			t.Error(err)
		}
		w = open(t, Options{URL: address})
		if err := createTable(t, w, s+".seen", "SELECT 1 AS a"); !fault.Has(err, fault.TargetDependents) || !strings.Contains(err.Error(), "view "+s+".v") {
			t.Error(err)
		}
		if err := createTable(t, w, s+".parts", "SELECT 1 AS a"); !fault.Has(err, fault.TargetDependents) {
			t.Error(err)
		}
	})
}

// TestPartitionedTarget: everything but replacement works on a partitioned table.
func TestPartitionedTarget(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c := connect(t, w)
		s := c.schema()
		c.exec("CREATE SEQUENCE "+s+".ids",
			"CREATE TABLE "+s+".t (a integer, v text, pipeline_id bigint, pipeline_run_id bigint, task_run_id bigint, hash_key varchar(32), create_date timestamptz, created_by text, "+
				"update_date timestamptz, updated_by text, delete_flag varchar(1), row_id bigint DEFAULT nextval('"+s+".ids')) PARTITION BY RANGE (a)",
			"CREATE TABLE "+s+".low PARTITION OF "+s+".t FOR VALUES FROM (0) TO (10)", "CREATE TABLE "+s+".high PARTITION OF "+s+".t DEFAULT")
		if err := run(t, w, "SQL_ACTION", "SCD1_MERGE", "TARGET_OBJECT", s+".t", "MERGE_KEY", "a", "MERGE_COMPARE_COLUMNS", "v", "SOURCE_SQL", "SELECT 1 AS a, 'x' AS v UNION ALL SELECT 11, 'y'"); err != nil {
			t.Fatal(err)
		}
		if err := run(t, w, "SQL_ACTION", "APPEND_TABLE", "TARGET_OBJECT", s+".t", "SOURCE_SQL", "SELECT 2 AS a, 'z' AS v"); err != nil {
			t.Fatal(err)
		}
		if got := c.value("SELECT string_agg(tableoid::regclass || ' ' || v || row_id, ', ' ORDER BY row_id) FROM " + s + ".t"); strings.ReplaceAll(got, s+".", "") != "low x1, high y2, low z3" &&
			strings.ReplaceAll(got, s+".", "") != "high y1, low x2, low z3" {
			t.Error(got)
		}
	})
}

// TestAddGenerator: the statements that a refusal prints are right.
func TestAddGenerator(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c := connect(t, w)
		s := c.schema()
		c.exec("CREATE TABLE "+s+".t (a integer, pipeline_id bigint, pipeline_run_id bigint, task_run_id bigint, row_id bigint)", "INSERT INTO "+s+".t (a, row_id) VALUES (1, 41)")
		params := []string{"SQL_ACTION", "APPEND_TABLE", "TARGET_OBJECT", s + ".t", "SOURCE_SQL", "SELECT 2 AS a"}
		err := run(t, w, params...)
		if !fault.Has(err, fault.NoGenerator) {
			t.Fatal(err)
		}
		for _, statement := range strings.Split(strings.TrimPrefix(fault.As(err).Hint, "run "), "; ") {
			c.exec(statement)
		}
		if err := run(t, w, params...); err != nil {
			t.Fatal(err)
		}
		if got := c.value("SELECT row_id FROM " + s + ".t WHERE a = 2"); got != "42" {
			t.Errorf("ROW_ID is %s", got)
		}
	})
}

// TestPlanInOneTransaction: tables that earlier tasks would make exist for later ones, also after one that cannot be
// planned, and nothing stays.
func TestPlanInOneTransaction(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c := connect(t, w)
		env := environment(w)
		env.CreateSchemas = true
		s := unique("planned")
		if err := c.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		dry := handlers.NewDry(c.session, time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC))
		for _, p := range []struct {
			source  string
			action  map[string]string
			refused string
		}{
			{"SELECT 1 AS a, CAST('x' AS varchar(3)) AS b", map[string]string{"SQL_ACTION": "CREATE_TABLE", "TARGET_OBJECT": s + ".first"}, ""},
			{"SELECT * FROM " + s + ".nowhere", map[string]string{"SQL_ACTION": "CREATE_TABLE", "TARGET_OBJECT": s + ".broken"}, "UndefinedTable: "},
			{"SELECT a, b FROM " + s + ".first", map[string]string{"SQL_ACTION": "SETUP_TABLE", "SETUP_FOR": "SCD2_MERGE", "TARGET_OBJECT": s + ".second"}, ""},
			{"SELECT a, b FROM " + s + ".first", map[string]string{"SQL_ACTION": "SCD2_MERGE", "MERGE_KEY": "a", "MERGE_COMPARE_COLUMNS": "b", "TARGET_OBJECT": s + ".second"}, ""},
		} {
			p.action["SOURCE_SQL"] = p.source
			plan, err := sql.Handler{}.Plan(t.Context(), env, &attempt(p.action).Task, dry)
			if p.refused != "" {
				if !fault.Has(err, fault.StatementFailed) || !strings.Contains(err.Error(), p.refused) {
					t.Errorf("%v: %v", p.action, err)
				}
				continue
			}
			if err != nil || plan.BlockedBy != "" || len(plan.Steps) == 0 {
				t.Errorf("%v: %v, plan %+v", p.action, err, plan)
			}
		}
		if err := c.Rollback(); err != nil {
			t.Error(err)
		}
		if c.value("SELECT count(*) FROM pg_namespace WHERE nspname = $1", s) != "0" {
			t.Error("the plan left its schema")
		}
	})
}

// TestStageFits: a column whose type changes between planning and staging is found, a domain is not taken for one.
func TestStageFits(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c := connect(t, w)
		s := c.schema()
		c.exec("CREATE DOMAIN "+s+".code AS varchar(5)", "CREATE TABLE "+s+".source (a "+s+".code, b numeric(5,2))")
		source := "SELECT a, b, CAST(b AS text) AS c, CAST('x' AS " + s + ".code) AS d FROM " + s + ".source"
		if err := run(t, w, "SQL_ACTION", "SETUP_TABLE", "SETUP_FOR", "APPEND_TABLE", "TARGET_OBJECT", s+".t", "SOURCE_SQL", source); err != nil {
			t.Fatal(err)
		}
		env, a := environment(w), attempt(map[string]string{"SQL_ACTION": "APPEND_TABLE", "TARGET_OBJECT": s + ".t", "SOURCE_SQL": source})
		if _, err := (sql.Handler{}).Run(t.Context(), env, a); err != nil {
			t.Fatal(err)
		}
		a.TaskRunID++
		a.SavePlan = func(*warehouses.Plan, string) error {
			c.exec("ALTER TABLE " + s + ".source ALTER b TYPE numeric(6,2)")
			return nil
		}
		if _, err := (sql.Handler{}).Run(t.Context(), env, a); !fault.Has(err, fault.StageChanged) {
			t.Error(err)
		}
	})
}

// TestEnumerations: hashed and ordered by their labels.
func TestEnumerations(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c := connect(t, w)
		s := c.schema()
		c.exec("CREATE TYPE "+s+".colour AS ENUM ('red', 'blue')", "CREATE TABLE "+s+".source (k integer, v "+s+".colour)", "INSERT INTO "+s+".source VALUES (1, 'red'), (1, 'blue'), (2, NULL)")
		source := "SELECT k, v FROM " + s + ".source"
		if err := run(t, w, "SQL_ACTION", "SETUP_TABLE", "SETUP_FOR", "SCD1_MERGE", "TARGET_OBJECT", s+".t", "SOURCE_SQL", source); err != nil {
			t.Fatal(err)
		}
		if err := run(t, w, "SQL_ACTION", "SCD1_MERGE", "TARGET_OBJECT", s+".t", "SOURCE_SQL", source, "MERGE_KEY", "k", "MERGE_COMPARE_COLUMNS", "v", "MERGE_DEDUPE_ORDER", "v"); err != nil {
			t.Fatal(err)
		}
		if got := c.value("SELECT string_agg(k || coalesce(v::text, '-') || (hash_key = md5(CASE k WHEN 1 THEN 'V4:blue' ELSE 'N' END)), ' ' ORDER BY k) FROM " + s + ".t"); got != "1bluetrue 2-true" {
			t.Error(got)
		}
	})
}

// TestFence: a later attempt on the target waits until an earlier one's transaction has ended, and so do other writers,
// while readers go on.
func TestFence(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		c := connect(t, w)
		s := c.schema()
		params := map[string]string{"SQL_ACTION": "OVERWRITE_TABLE", "TARGET_OBJECT": s + ".t", "SOURCE_SQL": "SELECT 1 AS a"}
		if err := run(t, w, "SQL_ACTION", "SETUP_TABLE", "SETUP_FOR", "OVERWRITE_TABLE", "TARGET_OBJECT", s+".t", "SOURCE_SQL", "SELECT 1 AS a"); err != nil {
			t.Fatal(err)
		}
		const waiting = "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND locktype = $1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND (locktype = 'advisory' OR relation = $2::text::regclass)"
		zombie := attempt(params)
		done := make(chan error, 2)
		zombie.Advance = func(context.Context, store.Progress) error { // before its commit
			go func() {
				done <- run(t, w, "SQL_ACTION", "OVERWRITE_TABLE", "TARGET_OBJECT", s+".t", "SOURCE_SQL", "SELECT 2 AS a")
			}()
			go func() {
				outsider, err := w.Session(t.Context())
				if err == nil {
					_, err = outsider.Exec(t.Context(), warehouses.SQL("INSERT INTO "+s+".t (a) VALUES (3)"))
					_ = outsider.Close()
				}
				done <- err
			}()
			c.until(waiting, "advisory", s+".t")
			c.until(waiting, "relation", s+".t")
			if got := c.value("SELECT count(*) FROM " + s + ".t"); got != "0" {
				t.Errorf("readers see %s rows before the commit", got)
			}
			return nil
		}
		if _, err := (sql.Handler{}).Run(t.Context(), environment(w), zombie); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := c.value("SELECT count(*) FILTER (WHERE a = 1) FROM " + s + ".t"); got != "0" {
			t.Errorf("the successor left %s rows of the first attempt", got)
		}
	})
}
