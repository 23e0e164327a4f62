package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	storepostgres "github.com/etl-craft/etl-craft/engine/store/postgres"
	storesqlite "github.com/etl-craft/etl-craft/engine/store/sqlite"
)

// histories compares an Engine DB that has seen a million task runs with one that has seen none.
func (b *bench) histories(p *page) error {
	for _, title := range []string{"SQLite", "PostgreSQL"} {
		if title == "PostgreSQL" && b.server == "" {
			continue
		}
		if err := b.history(p, title); err != nil {
			return fmt.Errorf("%s: %w", title, err)
		}
	}
	return nil
}

func (b *bench) history(p *page, title string) (err error) {
	var both [2]*past // without history, and with it
	for i := range both {
		dir := filepath.Join(b.dir, fmt.Sprintf("history %s %d", title, i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if both[i], err = b.past(dir, title); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, both[i].close()) }()
	}
	say("filling the history of %s", title)
	if err := both[1].fill(b.taskRuns); err != nil {
		return err
	}
	type what struct {
		name string
		do   func(*past) (time.Duration, error)
	}
	for _, w := range []what{{"admission", (*past).admission}, {"dispatch", (*past).dispatch}, {"`status`", (*past).status}, {"`run` of two tasks", (*past).run}, {"`history`", (*past).historyCommand}, {"`list`", (*past).list}} {
		var took [2][]time.Duration
		for range 41 {
			for i, h := range both {
				d, err := w.do(h)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				took[i] = append(took[i], d)
			}
		}
		for i := range took {
			slices.Sort(took[i])
		}
		p.history(title, w.name, took[0][len(took[0])/2], took[1][len(took[1])/2])
	}
	return nil
}

// past is a project whose Engine DB has a history or none: UP, and DOWN, which depends on UP.
type past struct {
	*project
	s     *store.Store
	drop  func() error
	turns int
	graph *store.Graph // of DOWN
	up    *store.Graph
}

func (b *bench) past(dir, title string) (*past, error) {
	h := &past{drop: func() error { return nil }}
	engine, w := sqliteEngine, b.duckdb(dir)
	address := ""
	if title == "PostgreSQL" {
		server, drop, err := b.postgres(fmt.Sprintf("history_%d", len(dir)+int(dir[len(dir)-1])))
		if err != nil {
			return nil, err
		}
		h.drop, address = drop, server.address
		engine = fmt.Sprintf("{type: postgres, url: %q}", address)
	}
	one := func(code, after string) string {
		return task(code, after, "SQL_ACTION: CREATE_TABLE", "TARGET_OBJECT: t."+code, "SOURCE_SQL: SELECT 1 AS id")
	}
	var err error
	h.project, err = b.project(dir, engine, w, map[string]string{
		"UP":    one("up", ""),
		"OTHER": one("o1", "") + one("o2", "o1") + one("o3", "o2") + one("o4", "o3") + one("o5", "o4") + one("o6", "o5") + one("o7", "o6") + one("o8", "o7"),
		"DOWN":  one("d1", "UP.up") + one("d2", "d1"),
	})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if address == "" {
		h.s, err = storesqlite.Open(ctx, filepath.Join(dir, "engine.db"))
	} else {
		h.s, err = storepostgres.Open(ctx, storepostgres.Config{Address: address})
	}
	if err != nil {
		return nil, err
	}
	if h.graph, err = h.s.Graph(ctx, "DOWN"); err != nil {
		return nil, err
	}
	h.up, err = h.s.Graph(ctx, "UP")
	return h, err
}

func (h *past) close() error { return errors.Join(h.s.Close(), h.drop()) }

// fill adds runs of all pipelines until there are n task runs, each with its attempt; DOWN has used up those of UP.
func (h *past) fill(n int) error {
	runs := n / 11
	backend := h.s.Backend()
	now := map[store.Dialect]string{store.SQLite: "'2025-06-01T00:00:00.000000Z'", store.Postgres: "TIMESTAMPTZ '2025-06-01'"}[backend.Dialect]
	day := map[store.Dialect]string{store.SQLite: "'2025-06-01'", store.Postgres: "DATE '2025-06-01'"}[backend.Dialect]
	table := func(name string) string {
		if backend.Schema == "" {
			return name
		}
		return backend.Schema + "." + name
	}
	statements := []string{
		`INSERT INTO {RUNS} (PIPELINE_ID, RUN_KEY, RUN_DATE, STATUS, START_DATE, END_DATE, STARTED_BY, STARTED_BY_KIND, ENDED_BY, ENDED_BY_KIND)
		 WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < $1)
		 SELECT p.PIPELINE_ID, 'past:' || n.n, {day}, 'SUCCESS', {now}, {now}, 'past', 'HUMAN', 'past', 'HUMAN'
		 FROM n CROSS JOIN {PIPELINES} p ORDER BY n.n, CASE p.PIPELINE_CODE WHEN 'UP' THEN 0 ELSE 1 END`,
		`INSERT INTO {TASKS} (PIPELINE_RUN_ID, TASK_ID, STATUS, START_DATE, END_DATE, ROWS_WRITTEN, INSERT_COUNT, TARGET_OBJECT, ATTEMPT_COUNT)
		 SELECT r.PIPELINE_RUN_ID, t.TASK_ID, 'SUCCESS', {now}, {now}, 1, 1, 'warehouse.t.' || t.TASK_CODE, 1
		 FROM {RUNS} r JOIN {CFG_TASKS} t ON t.PIPELINE_ID = r.PIPELINE_ID WHERE r.RUN_KEY LIKE 'past:%' ORDER BY r.PIPELINE_RUN_ID, t.TASK_ID`,
		`INSERT INTO {ATTEMPTS} (TASK_RUN_ID, ATTEMPT_NUMBER, STATUS, OWNER_ID, LEASE_EXPIRES_AT, HEARTBEAT_AT, QUEUED_AT, STARTED_AT, ENDED_AT, ROWS_WRITTEN, REQUESTED_BY, REQUESTED_BY_KIND)
		 SELECT TASK_RUN_ID, 1, 'SUCCESS', 'h:1:past', {now}, {now}, {now}, {now}, {now}, 1, 'past', 'HUMAN' FROM {TASKS} ORDER BY TASK_RUN_ID`,
		`INSERT INTO {DECISIONS} (PIPELINE_ID, PIPELINE_RUN_ID, TASK_RUN_ID, TASK_DEPENDENCY_ID, SELECTED_PIPELINE_RUN_ID, SELECTED_TASK_RUN_ID, SELECTED_REVISION, RESULT)
		 SELECT d.PIPELINE_ID, r.PIPELINE_RUN_ID, l.TASK_RUN_ID, d.TASK_DEPENDENCY_ID, u.PIPELINE_RUN_ID, ul.TASK_RUN_ID, 1, 'SATISFIED'
		 FROM {EDGES} d
		 JOIN {TASKS} l ON l.TASK_ID = d.TASK_ID
		 JOIN {RUNS} r ON r.PIPELINE_RUN_ID = l.PIPELINE_RUN_ID
		 JOIN {CFG_TASKS} ut ON ut.TASK_ID = d.DEPENDS_ON_TASK_ID AND ut.PIPELINE_ID <> d.PIPELINE_ID
		 JOIN {RUNS} u ON u.PIPELINE_ID = ut.PIPELINE_ID AND u.RUN_KEY = r.RUN_KEY
		 JOIN {TASKS} ul ON ul.PIPELINE_RUN_ID = u.PIPELINE_RUN_ID ORDER BY r.PIPELINE_RUN_ID`,
		`INSERT INTO {CONSUMED} (TASK_DEPENDENCY_ID, PIPELINE_ID, PIPELINE_RUN_ID, TASK_ID, DEPENDS_ON_PIPELINE_ID, CONSUMED_PIPELINE_RUN_ID, CONSUMED_TASK_RUN_ID)
		 SELECT g.TASK_DEPENDENCY_ID, g.PIPELINE_ID, g.PIPELINE_RUN_ID, d.TASK_ID, u.PIPELINE_ID, g.SELECTED_PIPELINE_RUN_ID, g.SELECTED_TASK_RUN_ID
		 FROM {DECISIONS} g JOIN {EDGES} d ON d.TASK_DEPENDENCY_ID = g.TASK_DEPENDENCY_ID JOIN {RUNS} u ON u.PIPELINE_RUN_ID = g.SELECTED_PIPELINE_RUN_ID
		 ORDER BY g.DECISION_ID`,
		`INSERT INTO {ACTIONS} (ACTOR, ACTOR_KIND, HOST, COMMAND, ARGUMENTS, PIPELINE_ID, PIPELINE_RUN_ID, OUTCOME, EXIT_CODE, STARTED_AT, ENDED_AT)
		 SELECT 'past', 'HUMAN', 'h', 'run', '{}', PIPELINE_ID, PIPELINE_RUN_ID, 'DONE', 0, {now}, {now} FROM {RUNS} ORDER BY PIPELINE_RUN_ID`,
	}
	names := strings.NewReplacer("{RUNS}", table("AUD_PIPELINES_RUN_LOG"), "{TASKS}", table("AUD_TASK_RUN_LOG"), "{ATTEMPTS}", table("AUD_TASK_ATTEMPTS"),
		"{DECISIONS}", table("AUD_GATE_DECISIONS"), "{CONSUMED}", table("AUD_DEPENDENCY_CONSUMPTION"), "{ACTIONS}", table("AUD_ACTIONS"),
		"{PIPELINES}", table("CFG_PIPELINES"), "{CFG_TASKS}", table("CFG_TASKS"), "{EDGES}", table("CFG_TASK_DEPENDENCY"), "{now}", now, "{day}", day)
	for _, statement := range statements {
		var args []any
		if strings.Contains(statement, "$1") {
			args = append(args, runs)
		}
		if _, err := backend.Writer.Exec(names.Replace(statement), args...); err != nil {
			return fmt.Errorf("%w in %s", err, statement)
		}
	}
	// What the databases do in time by themselves.
	settle := map[store.Dialect]string{store.SQLite: "PRAGMA wal_checkpoint(TRUNCATE)", store.Postgres: "VACUUM ANALYZE"}[backend.Dialect]
	if _, err := backend.Writer.Exec(settle); err != nil {
		return err
	}
	var have, consumed int
	err := backend.Reader.QueryRow(names.Replace("SELECT (SELECT COUNT(*) FROM {TASKS}), (SELECT COUNT(*) FROM {CONSUMED})")).Scan(&have, &consumed)
	if err != nil {
		return err
	}
	say("%d task runs, %d upstream runs used up", have, consumed)
	return nil
}

var somebody = store.Actor{Name: "bench", Kind: "HUMAN"}

// newRun ends a run of UP and admits one of DOWN.
func (h *past) newRun(g *store.Graph) (*store.Run, error) {
	h.turns++
	return h.s.AdmitRun(context.Background(), store.NewRun{PipelineID: g.Pipeline.ID, Key: fmt.Sprintf("bench:%d", h.turns), Date: "2026-01-01",
		Trigger: store.TriggerManual, OwnerID: "bench", Actor: somebody})
}

// carryOut runs every task of a run in name only, and ends it.
func (h *past) carryOut(run *store.Run) (dispatch time.Duration, err error) {
	ctx := context.Background()
	tasks, err := h.s.TaskRuns(ctx, run.ID)
	if err != nil {
		return 0, err
	}
	for _, t := range tasks {
		start := time.Now()
		a, err := h.s.StartAttempt(ctx, store.StartAttempt{TaskRunID: t.ID, Owner: "bench", Host: "h", PID: 1, LogPath: "l", TargetObject: "warehouse.t." + strings.ToLower(t.TaskCode), Actor: somebody})
		if err != nil {
			return 0, err
		}
		if _, err := h.s.Attempts(ctx, t.ID); err != nil {
			return 0, err
		}
		dispatch += time.Since(start)
		one := int64(1)
		c := store.Counts{Written: &one, Insert: &one}
		err = h.s.FinishAttempt(ctx, store.Outcome{AttemptID: a.ID, Owner: "bench", Status: store.Success, TaskStatus: store.Success, Counts: c, TaskCounts: c})
		if err != nil {
			return 0, err
		}
	}
	return dispatch / time.Duration(len(tasks)), h.s.EndRun(ctx, store.RunEnd{RunID: run.ID, Owner: "bench", Status: store.Success, Actor: somebody, Consume: true})
}

// admission is what happens until a run and its rows exist: what waits, what is newest, which upstream run counts.
func (h *past) admission() (time.Duration, error) {
	ctx := context.Background()
	up, err := h.newRun(h.up)
	if err != nil {
		return 0, err
	}
	if _, err := h.carryOut(up); err != nil {
		return 0, err
	}
	edge := h.graph.Tasks[0].DependsOn[0]
	start := time.Now()
	if _, err := h.s.UnfinishedRun(ctx, h.graph.Pipeline.ID); err != nil {
		return 0, err
	}
	if _, err := h.s.NewestRun(ctx, h.graph.Pipeline.ID); err != nil {
		return 0, err
	}
	u, err := h.s.LookUpstream(ctx, store.Gate{TaskEdgeID: edge.ID, UpstreamPipelineID: edge.PipelineID, UpstreamTaskID: edge.TaskID, Type: edge.Type, ConsumeRepairs: true})
	if err != nil {
		return 0, err
	}
	if u.RunID != up.ID {
		return 0, fmt.Errorf("the gate chose run %d, not %d", u.RunID, up.ID)
	}
	run, err := h.newRun(h.graph)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	_, err = h.carryOut(run)
	return took, err
}

// dispatch is what happens between the decision to run a task and its first statement.
func (h *past) dispatch() (time.Duration, error) {
	run, err := h.newRun(h.graph)
	if err != nil {
		return 0, err
	}
	return h.carryOut(run)
}

func (h *past) command(args ...string) (time.Duration, error) {
	c, err := h.project.run(args...)
	return c.wall, err
}

func (h *past) status() (time.Duration, error) { return h.command("status", "--pipeline", "DOWN") }

func (h *past) historyCommand() (time.Duration, error) {
	return h.command("history", "--pipeline", "DOWN")
}

func (h *past) list() (time.Duration, error) { return h.command("list") }

// run is a whole run whose gate is satisfied.
func (h *past) run() (time.Duration, error) {
	up, err := h.newRun(h.up)
	if err != nil {
		return 0, err
	}
	if _, err := h.carryOut(up); err != nil {
		return 0, err
	}
	return h.command("run", "--pipeline", "DOWN")
}
