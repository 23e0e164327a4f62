package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"
)

// Why an old run stays.
const (
	KeptNewest   = "NEWEST"   // it is the newest of its pipeline
	KeptRunning  = "RUNNING"  // a task of it has not ended, though the run has
	KeptBackfill = "BACKFILL" // it belongs to the newest backfill of its pipeline, which may go on
	KeptGate     = "GATE"     // a dependency of another pipeline or task could choose it
)

// Purged counts rows by the names of their tables.
type Purged map[string]int64

// Tables that rows are purged from.
const (
	TableNotifications = "AUD_NOTIFICATIONS"
	TableInterventions = "AUD_RUN_INTERVENTIONS"
	TableGateWaits     = "AUD_GATE_WAITS"
	TableDecisions     = "AUD_GATE_DECISIONS"
	TableConsumption   = "AUD_DEPENDENCY_CONSUMPTION"
	TableAttempts      = "AUD_TASK_ATTEMPTS"
	TableTaskRuns      = "AUD_TASK_RUN_LOG"
	TableRuns          = "AUD_PIPELINES_RUN_LOG"
	TablePauses        = "AUD_PIPELINE_PAUSES"
	TableActions       = "AUD_ACTIONS"
)

// PurgeTables are those tables, in the order in which people read them.
var PurgeTables = []string{TableRuns, TableTaskRuns, TableAttempts, TableDecisions, TableGateWaits, TableInterventions, TableNotifications,
	TableConsumption, TablePauses, TableActions}

// Add adds the counts of another one.
func (p Purged) Add(other Purged) {
	for table, rows := range other {
		p[table] += rows
	}
}

// Rows is the sum over all tables.
func (p Purged) Rows() int64 {
	var n int64
	for _, rows := range p {
		n += rows
	}
	return n
}

// OldRun is a run that ended before the time asked for.
type OldRun struct {
	ID   int64
	Kept string // why it stays, "" when it may go
	Rows Purged // what goes with it, the run included
}

// AllPipelines reads the ids of all pipelines, retired ones included.
func (s *Store) AllPipelines(ctx context.Context) ([]int64, error) {
	var ids []int64
	err := s.read(ctx, "read the pipelines", func(t *tx) (err error) {
		ids, err = t.ids("purge_pipelines")
		return err
	})
	return ids, err
}

func (t *tx) ids(query string, args ...any) ([]int64, error) {
	var ids []int64
	err := t.each(query, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, args...)
	return ids, err
}

// purgeArgs are the arguments of a query that contains why_kept: the first one, then the pipeline, the time, and what why_kept
// compares with.
func (t *tx) purgeArgs(first any, pipelineID int64, before time.Time) ([]any, error) {
	var newest, oldestSeen int64
	var backfill string
	err := t.row("purge_marks", pipelineID).Scan(&newest, &oldestSeen, &backfill)
	return []any{first, pipelineID, timeText(before), newest, oldestSeen, backfill}, err
}

// OldRuns reads runs of a pipeline that ended before a time, in order of their ids: at most limit of those above after.
func (s *Store) OldRuns(ctx context.Context, pipelineID int64, before time.Time, after int64, limit int) ([]OldRun, error) {
	var runs []OldRun
	err := s.read(ctx, "read the old runs", func(t *tx) error {
		args, err := t.purgeArgs(after, pipelineID, before)
		if err != nil {
			return err
		}
		return t.each("old_runs", func(rows *sql.Rows) error {
			r := OldRun{}
			var notifications, interventions, waits, decisions, attempts, tasks int64
			err := rows.Scan(&r.ID, &r.Kept, &notifications, &interventions, &waits, &decisions, &attempts, &tasks)
			r.Rows = Purged{TableRuns: 1, TableNotifications: notifications, TableInterventions: interventions, TableGateWaits: waits,
				TableDecisions: decisions, TableAttempts: attempts, TableTaskRuns: tasks}
			runs = append(runs, r)
			return err
		}, append(args, limit)...)
	})
	return runs, err
}

// LogPaths reads where the logs of the attempts of runs were written, by run.
func (s *Store) LogPaths(ctx context.Context, runIDs []int64) (paths map[int64][]string, err error) {
	err = s.read(ctx, "read the logs of the runs", func(t *tx) error {
		paths, err = t.logPaths(runIDs)
		return err
	})
	return paths, err
}

func (t *tx) logPaths(runIDs []int64) (map[int64][]string, error) {
	paths := map[int64][]string{}
	err := t.each("logs_of_runs", func(rows *sql.Rows) error {
		var run int64
		var path string
		err := rows.Scan(&run, &path)
		paths[run] = append(paths[run], path)
		return err
	}, idList(runIDs))
	return paths, err
}

// idList is a JSON list.
func idList(ids []int64) string {
	list, _ := json.Marshal(append([]int64{}, ids...)) // numbers never fail
	return string(list)
}

// PurgeRuns deletes those of the runs of a pipeline that may still go, each with all that belongs to it, in one transaction,
// and says which and how many rows. A run that somebody is changing is left as it is, and so is one of which remove, called
// for each run that goes with the paths of its logs, returns false.
func (s *Store) PurgeRuns(ctx context.Context, pipelineID int64, before time.Time, runIDs []int64, remove func(runID int64, logs []string) bool) (gone []int64, rows Purged, err error) {
	rows = Purged{}
	err = s.write(ctx, "purge runs", func(t *tx) error {
		if _, err := t.exec("begin_retention"); err != nil {
			return err
		}
		locked, err := t.ids("lock_old_runs", idList(runIDs))
		if err != nil {
			return err
		}
		// A statement of its own sees what was changed before the locks were there.
		args, err := t.purgeArgs(idList(locked), pipelineID, before)
		if err != nil {
			return err
		}
		if gone, err = t.ids("runs_that_may_go", args...); err != nil {
			return err
		}
		paths, err := t.logPaths(gone)
		if err != nil {
			return err
		}
		gone = slices.DeleteFunc(gone, func(id int64) bool { return !remove(id, paths[id]) })
		if len(gone) > 0 {
			if err := t.purgeRuns(gone, rows); err != nil {
				return err
			}
		}
		return t.endSession()
	})
	if err != nil {
		return nil, nil, err
	}
	return gone, rows, nil
}

func (t *tx) purgeRuns(runIDs []int64, rows Purged) error {
	taskRuns, err := t.ids("task_runs_of_runs", idList(runIDs))
	if err != nil {
		return err
	}
	for _, d := range []struct {
		table, query string
		ids          []int64
	}{
		{TableNotifications, "purge_notifications", runIDs},
		{TableInterventions, "purge_interventions", runIDs},
		{TableGateWaits, "purge_waits_of_runs", runIDs},
		{TableDecisions, "purge_decisions_of_runs", runIDs},
		{TableAttempts, "purge_attempts", taskRuns},
		{TableTaskRuns, "purge_task_runs", runIDs},
		{TableRuns, "purge_runs", runIDs},
	} {
		n, err := t.exec(d.query, idList(d.ids))
		if err != nil {
			return err
		}
		if n > 0 {
			rows[d.table] += n
		}
	}
	return nil
}

// killedAfter is how old a command without an outcome has to be to count as killed.
const killedAfter = 366 * 24 * time.Hour

// looseQueries are the queries for rows that belong to no run: those that are old, and their end.
var looseQueries = map[string][2]string{
	TableDecisions:   {"old_decisions", "purge_decisions"},
	TableGateWaits:   {"old_waits", "purge_waits"},
	TablePauses:      {"old_pauses", "purge_pauses"},
	TableActions:     {"old_actions", "purge_actions"},
	TableConsumption: {"old_consumption", "purge_consumption"},
}

// LooseTables are the tables whose rows belong to no run, or may outlive it, in the order in which they are purged.
// TableConsumption comes after the runs.
var LooseTables = []string{TableConsumption, TableDecisions, TableGateWaits, TablePauses, TableActions}

// OldRows reads the ids of rows of one of LooseTables that may go, of one pipeline or, with 0, of all: it looks at up to limit
// rows above after. next is where to go on, 0 when that was the end. gone says which runs count as purged though they are
// there, nil for none.
func (s *Store) OldRows(ctx context.Context, table string, pipelineID int64, before time.Time, after int64, limit int, gone func(runID int64) bool) (ids []int64, next int64, err error) {
	args := []any{pipelineID, timeText(before), after, limit}
	if table == TableActions {
		args = append(args, timeText(before.Add(-killedAfter)))
	}
	seen := 0
	err = s.read(ctx, "read the old rows of "+table, func(t *tx) error {
		return t.each(looseQueries[table][0], func(rows *sql.Rows) error {
			seen++
			if table != TableConsumption {
				err := rows.Scan(&next)
				ids = append(ids, next)
				return err
			}
			var by, used int64
			var byThere, usedThere bool
			err := rows.Scan(&next, &by, &used, yes(&byThere), yes(&usedThere))
			isGone := func(run int64, there bool) bool { return !there || gone != nil && gone(run) }
			if isGone(by, byThere) && isGone(used, usedThere) {
				ids = append(ids, next)
			}
			return err
		}, args...)
	})
	if seen < limit {
		next = 0
	}
	return ids, next, err
}

// PurgeRows deletes rows that OldRows has found, in one transaction, and says how many were there still.
func (s *Store) PurgeRows(ctx context.Context, table string, ids []int64) (int64, error) {
	var n int64
	if len(ids) == 0 {
		return 0, nil
	}
	err := s.write(ctx, "purge old rows of "+table, func(t *tx) (err error) {
		if _, err = t.exec("begin_retention"); err != nil {
			return err
		}
		if n, err = t.exec(looseQueries[table][1], idList(ids)); err != nil {
			return err
		}
		return t.endSession()
	})
	return n, err
}

// NoteResult records what a command that has no outcome yet came to, as JSON.
func (s *Store) NoteResult(ctx context.Context, actionID int64, result string) error {
	return s.write(ctx, "record the command's result", func(t *tx) error {
		_, err := t.exec("note_result", actionID, result)
		return err
	})
}
