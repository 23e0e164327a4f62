package storetest

import (
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store"
)

// byHand are rows as a project migration makes them: each INSERT names only what has no default.
const byHand = `
INSERT INTO {{schema}}.CFG_PIPELINES (PIPELINE_CODE, PIPELINE_NAME, REFRESH_TYPE) VALUES ('RAW', 'Raw', 'FULL');
INSERT INTO {{schema}}.CFG_PIPELINES (PIPELINE_CODE, PIPELINE_NAME, REFRESH_TYPE) VALUES ('DWH', 'Warehouse', 'FULL');
INSERT INTO {{schema}}.CFG_TASKS (TASK_CODE, TASK_TYPE, PIPELINE_ID, HANDLER) VALUES ('extract', 'INGESTION', 1, 'SQL');
INSERT INTO {{schema}}.CFG_TASKS (TASK_CODE, TASK_TYPE, PIPELINE_ID, HANDLER) VALUES ('load', 'ETL', 2, 'SQL');
INSERT INTO {{schema}}.CFG_TASKS (TASK_CODE, TASK_TYPE, PIPELINE_ID, HANDLER) VALUES ('report', 'ETL', 2, 'SQL');
INSERT INTO {{schema}}.CFG_TASK_PARAMETERS (TASK_ID, PARAMETER_NAME, PARAMETER_VALUE) VALUES (1, 'SQL_ACTION', 'APPEND_TABLE');
INSERT INTO {{schema}}.CFG_TASK_DEPENDENCY (PIPELINE_ID, TASK_ID, DEPENDS_ON_TASK_ID, DEPENDENCY_TYPE) VALUES (2, 2, 1, 'SUCCESS');
INSERT INTO {{schema}}.CFG_TASK_DEPENDENCY (PIPELINE_ID, TASK_ID, DEPENDS_ON_TASK_ID, DEPENDENCY_TYPE) VALUES (2, 3, 2, 'HAS_DATA');
INSERT INTO {{schema}}.CFG_PIPELINE_DEPENDENCY (PIPELINE_ID, DEPENDS_ON_PIPELINE_ID, DEPENDENCY_TYPE) VALUES (2, 1, 'SUCCESS');
`

func makeByHand(t *testing.T, s *store.Store) {
	t.Helper()
	for statement := range strings.SplitSeq(strings.TrimSpace(byHand), "\n") {
		Exec(t, s, statement)
	}
}

func TestRowsMadeByHand(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		makeByHand(t, s)
		g := graph(t, s, "DWH")
		want(t, "edge to another pipeline", g.Task("load").DependsOn[0].PipelineCode+"."+g.Task("load").DependsOn[0].TaskCode, "RAW.extract")
		want(t, "edge within", g.Task("report").DependsOn[0].PipelineCode, "DWH")
		want(t, "defaults", g.DependsOn[0].Match+" "+g.Task("load").Origin, "NEWEST ")
		want(t, "consumes", g.DependsOn[0].ConsumeRepairs, true)
		want(t, "parameter", graph(t, s, "RAW").Tasks[0].Params["SQL_ACTION"], "APPEND_TABLE")
		who := Value(t, s, "SELECT CREATED_BY FROM {{schema}}.CFG_TASKS WHERE TASK_ID = 1")
		if who == "" || s.Backend().Dialect == store.SQLite && who != "outside etl-craft" {
			t.Fatalf("created by %q", who)
		}
		want(t, "stamped alike", Value(t, s,
			"SELECT COUNT(*) FROM {{schema}}.CFG_TASKS WHERE CREATED_BY = UPDATED_BY AND CREATE_DATE = UPDATED_DATE"), "3")
		want(t, "changes", Value(t, s, "SELECT COUNT(*) FROM {{schema}}.AUD_METADATA_CHANGES WHERE OPERATION = 'INSERT'"), "9")
		want(t, "key of an edge", Value(t, s, "SELECT ROW_KEY FROM {{schema}}.AUD_METADATA_CHANGES WHERE TABLE_NAME = 'CFG_TASK_DEPENDENCY' ORDER BY CHANGE_ID LIMIT 1"),
			"DWH.load <- RAW.extract on SUCCESS")
	})
}

func TestStampsOfAnUpdate(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		makeByHand(t, s)
		before := Value(t, s, "SELECT CREATED_BY FROM {{schema}}.CFG_PIPELINES WHERE PIPELINE_ID = 1")
		Exec(t, s, "UPDATE {{schema}}.CFG_PIPELINES SET CREATED_BY = 'forged', PIPELINE_NAME = 'New' WHERE PIPELINE_ID = 1")
		want(t, "creator", Value(t, s, "SELECT CREATED_BY FROM {{schema}}.CFG_PIPELINES WHERE PIPELINE_ID = 1"), before)
		const updates = "SELECT COUNT(*) FROM {{schema}}.AUD_METADATA_CHANGES WHERE OPERATION = 'UPDATE'"
		want(t, "recorded once", Value(t, s, updates), "1")
		Exec(t, s, "UPDATE {{schema}}.CFG_PIPELINES SET PIPELINE_NAME = 'New' WHERE PIPELINE_ID = 1")
		want(t, "no change, no record", Value(t, s, updates), "1")
		Exec(t, s, "DELETE FROM {{schema}}.CFG_TASK_DEPENDENCY WHERE TASK_ID = 3")
		want(t, "delete", Value(t, s, "SELECT ROW_KEY FROM {{schema}}.AUD_METADATA_CHANGES WHERE OPERATION = 'DELETE' AND AFTER_JSON IS NULL"),
			"DWH.report <- DWH.load on HAS_DATA")
	})
}

// Each statement must be refused by the database itself; the words are in the message of at least one database.
func TestConstraints(t *testing.T) {
	const (
		run = `INSERT INTO {{schema}}.AUD_PIPELINES_RUN_LOG (PIPELINE_ID, RUN_KEY, RUN_DATE, STATUS, SKIP_REASON, END_DATE, STARTED_BY, STARTED_BY_KIND) VALUES `
		tsk = `INSERT INTO {{schema}}.CFG_TASKS (TASK_CODE, TASK_TYPE, PIPELINE_ID, HANDLER, RUN_CONDITION, RUN_CONDITION_COUNT) VALUES `
		dep = `INSERT INTO {{schema}}.CFG_TASK_DEPENDENCY (PIPELINE_ID, TASK_ID, DEPENDS_ON_PIPELINE_ID, DEPENDS_ON_TASK_ID, DEPENDENCY_TYPE) VALUES `
		pip = `INSERT INTO {{schema}}.CFG_PIPELINES (PIPELINE_CODE, PIPELINE_NAME, REFRESH_TYPE) VALUES `
		pse = `INSERT INTO {{schema}}.AUD_PIPELINE_PAUSES (PIPELINE_ID, PAUSED_BY, PAUSED_BY_KIND, REASON) VALUES (1, 'x', 'HUMAN', 'x')`
	)
	end := "'2026-09-01T00:00:00.000000Z'"
	cases := map[string][]string{ // the last statement is the refused one
		"active pipeline code twice": {pip + "('RAW', 'again', 'FULL')"},
		"pipeline code, digit first": {pip + "('1RAW', 'x', 'FULL')"},
		"pipeline code, dash":        {pip + "('RAW-1', 'x', 'FULL')"},
		"pipeline code, not ASCII":   {pip + "('RÄW', 'x', 'FULL')"},
		"pipeline code, empty":       {pip + "('', 'x', 'FULL')"},
		"pipeline code, 129 letters": {pip + "('" + strings.Repeat("A", 129) + "', 'x', 'FULL')"},
		"refresh type":               {pip + "('OTHER', 'x', 'full')"},
		"active task code twice":     {tsk + "('load', 'ETL', 2, 'SQL', NULL, NULL)"},
		"task type":                  {tsk + "('x', 'SQL', 2, 'SQL', NULL, NULL)"},
		"task without pipeline":      {tsk + "('x', 'ETL', 99, 'SQL', NULL, NULL)"},
		"condition N without count":  {tsk + "('x', 'ETL', 2, 'SQL', 'N', NULL)"},
		"condition N of none":        {tsk + "('x', 'ETL', 2, 'SQL', 'N', 0)"},
		"condition ALL with count":   {tsk + "('x', 'ETL', 2, 'SQL', 'ALL', 1)"},
		"count without condition":    {tsk + "('x', 'ETL', 2, 'SQL', NULL, 1)"},
		"unknown condition":          {tsk + "('x', 'ETL', 2, 'SQL', 'SOME', NULL)"},
		"parameter twice":            {`INSERT INTO {{schema}}.CFG_TASK_PARAMETERS (TASK_ID, PARAMETER_NAME) VALUES (1, 'SQL_ACTION')`},
		"task and pipeline disagree": {dep + "(1, 2, 1, 1, 'ALWAYS')"},
		"upstream and its pipeline":  {dep + "(2, 2, 2, 1, 'ALWAYS')"},
		"task waits for itself":      {dep + "(2, 2, 2, 2, 'SUCCESS')"},
		"same edge twice":            {dep + "(2, 2, NULL, 1, 'SUCCESS')"},
		"unknown dependency type":    {dep + "(2, 2, 1, 1, 'DONE')"},
		"edge loses its pipeline":    {`UPDATE {{schema}}.CFG_TASK_DEPENDENCY SET DEPENDS_ON_PIPELINE_ID = NULL`},
		"pipeline waits for itself": {`INSERT INTO {{schema}}.CFG_PIPELINE_DEPENDENCY
			(PIPELINE_ID, DEPENDS_ON_PIPELINE_ID, DEPENDENCY_TYPE) VALUES (1, 1, 'SUCCESS')`},
		"task with history is deleted": {run + "(1, 'k', '2026-09-01', 'IN_PROGRESS', NULL, NULL, 'x', 'HUMAN')",
			`INSERT INTO {{schema}}.AUD_TASK_RUN_LOG (PIPELINE_RUN_ID, TASK_ID) SELECT MAX(PIPELINE_RUN_ID), 1 FROM {{schema}}.AUD_PIPELINES_RUN_LOG`,
			`DELETE FROM {{schema}}.CFG_TASKS WHERE TASK_ID = 1`},
		"two runs in progress": {run + "(1, 'k1', '2026-09-01', 'IN_PROGRESS', NULL, NULL, 'x', 'HUMAN')",
			run + "(1, 'k2', '2026-09-01', 'IN_PROGRESS', NULL, NULL, 'x', 'HUMAN')"},
		"run key twice": {run + "(1, 'k', '2026-09-01', 'SUCCESS', NULL, " + end + ", 'x', 'HUMAN')",
			run + "(1, 'k', '2026-09-01', 'SUCCESS', NULL, " + end + ", 'x', 'HUMAN')"},
		"run status with a hyphen":        {run + "(1, 'k', '2026-09-01', 'IN-PROGRESS', NULL, NULL, 'x', 'HUMAN')"},
		"skipped without reason":          {run + "(1, 'k', '2026-09-01', 'SKIPPED', NULL, " + end + ", 'x', 'HUMAN')"},
		"reason without skipped":          {run + "(1, 'k', '2026-09-01', 'SUCCESS', 'OPERATOR', " + end + ", 'x', 'HUMAN')"},
		"ended run without end":           {run + "(1, 'k', '2026-09-01', 'SUCCESS', NULL, NULL, 'x', 'HUMAN')"},
		"unfinished run with end":         {run + "(1, 'k', '2026-09-01', 'QUEUED', NULL, " + end + ", 'x', 'HUMAN')"},
		"run date that is none":           {run + "(1, 'k', 'no date!', 'QUEUED', NULL, NULL, 'x', 'HUMAN')"},
		"two open pauses":                 {pse, pse},
		"metadata change is edited":       {`UPDATE {{schema}}.AUD_METADATA_CHANGES SET ACTOR = 'nobody'`},
		"metadata change is deleted":      {`DELETE FROM {{schema}}.AUD_METADATA_CHANGES`},
		"metadata parameter is no object": {`UPDATE {{schema}}.CFG_PIPELINES SET PIPELINE_PARAMETERS = '[1]'`},
	}
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		makeByHand(t, s)
		for name, statements := range cases {
			t.Run(name, func(t *testing.T) {
				tx, err := s.Backend().Writer.Begin()
				must(t, err)
				defer func() { _ = tx.Rollback() }()
				for _, statement := range statements[:len(statements)-1] {
					if _, err := tx.Exec(in(s, statement)); err != nil {
						t.Fatalf("%v\n%s", err, statement)
					}
				}
				if _, err := tx.Exec(in(s, statements[len(statements)-1])); err == nil {
					t.Fatalf("accepted: %s", statements[len(statements)-1])
				}
			})
		}
		// A retired code is free again.
		Exec(t, s, `UPDATE {{schema}}.CFG_PIPELINES SET ACTIVE_FLAG = 'N' WHERE PIPELINE_CODE = 'RAW'`)
		Exec(t, s, pip+"('RAW', 'again', 'FULL')")
	})
}

func TestEndedAttemptIsFrozen(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		_, list := admitted(t, s)
		a := start(t, s, list[0].ID, "one")
		Exec(t, s, `UPDATE {{schema}}.AUD_TASK_ATTEMPTS SET TASK_LOG = 'x'`)
		finish(t, s, a, store.Failed)
		for _, change := range []string{"STATUS = 'SUCCESS'", "TASK_LOG = 'y'", "ROWS_WRITTEN = 1", "OWNER_ID = 'two'"} {
			if _, err := TryExec(s, `UPDATE {{schema}}.AUD_TASK_ATTEMPTS SET `+change); err == nil {
				t.Fatalf("accepted: %s", change)
			}
		}
		must(t, s.Settle(ctx, a.ID, false))
		if _, err := TryExec(s, `UPDATE {{schema}}.AUD_TASK_ATTEMPTS SET COMMITTED = 'Y'`); err == nil {
			t.Fatal("settled twice")
		}
	})
}

// Retention may delete what is append-only, within its transaction.
func TestRetentionPurpose(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		makeByHand(t, s)
		purpose := "INSERT INTO ENGINE_SESSION (SESSION_ID, ACTOR, ACTOR_KIND, PURPOSE) VALUES (1, 'x', 'SYSTEM', 'retention')"
		if s.Backend().Dialect == store.Postgres {
			purpose = "SELECT set_config('etl_craft.purpose', 'retention', true)"
		}
		tx, err := s.Backend().Writer.Begin()
		must(t, err)
		for _, statement := range []string{purpose, "DELETE FROM {{schema}}.AUD_METADATA_CHANGES"} {
			if _, err := tx.Exec(in(s, statement)); err != nil {
				t.Fatal(err)
			}
		}
		must(t, tx.Rollback())
		if _, err := TryExec(s, "DELETE FROM {{schema}}.AUD_METADATA_CHANGES"); err == nil {
			t.Fatal("the purpose outlived its transaction")
		}
	})
}
