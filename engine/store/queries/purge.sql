-- What may go, and what has to stay because something reads it still. {{given}}: the column is in the JSON list of ids $1.

-- name: purge_pipelines
SELECT PIPELINE_ID FROM {{schema}}.CFG_PIPELINES ORDER BY PIPELINE_ID

-- The newest run of a pipeline; the oldest of the runs that gates look at, as many as in gate_recent; which backfill is the
-- newest, by the end of its runs' keys, backfill:<date>:<last date>:<backfill>.
-- name: purge_marks
SELECT
    COALESCE((SELECT MAX(n.PIPELINE_RUN_ID) FROM {{schema}}.AUD_PIPELINES_RUN_LOG n WHERE n.PIPELINE_ID = $1), 0),
    COALESCE((
        SELECT n.PIPELINE_RUN_ID
        FROM {{schema}}.AUD_PIPELINES_RUN_LOG n
        WHERE n.PIPELINE_ID = $1 AND n.STATUS IN ('SUCCESS', 'FAILED', 'SKIPPED') AND n.TRIGGER_KIND <> 'BACKFILL'
        ORDER BY n.PIPELINE_RUN_ID DESC
        LIMIT 1 OFFSET 199), 0),
    COALESCE((
        SELECT substr(n.RUN_KEY, 32)
        FROM {{schema}}.AUD_PIPELINES_RUN_LOG n
        WHERE n.PIPELINE_ID = $1 AND n.TRIGGER_KIND = 'BACKFILL' AND n.RUN_KEY LIKE 'backfill:__________:__________:%'
        ORDER BY n.PIPELINE_RUN_ID DESC
        LIMIT 1), '')

-- Why run r stays, '' when it may go. $4 is the newest run, $5 the oldest that gates look at, $6 the newest backfill. What
-- a dependency could choose is as in pipeline_gate and task_gate. A run that was used where the dates have to be the same says that
-- older runs of its date are used up too, as long as there are any.
-- name: why_kept
CASE
    WHEN r.PIPELINE_RUN_ID >= $4 THEN 'NEWEST'
    WHEN EXISTS (
        SELECT 1 FROM {{schema}}.AUD_TASK_RUN_LOG l WHERE l.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID AND l.STATUS = 'IN_PROGRESS')
        THEN 'RUNNING'
    WHEN r.TRIGGER_KIND = 'BACKFILL' THEN CASE WHEN substr(r.RUN_KEY, 32) = $6 THEN 'BACKFILL' ELSE '' END
    WHEN (
        EXISTS (
            SELECT 1
            FROM {{schema}}.CFG_PIPELINE_DEPENDENCY e
            JOIN {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
                ON c.PIPELINE_DEPENDENCY_ID = e.PIPELINE_DEPENDENCY_ID AND c.CONSUMED_PIPELINE_RUN_ID = r.PIPELINE_RUN_ID
            WHERE e.DEPENDS_ON_PIPELINE_ID = r.PIPELINE_ID AND e.MATCH = 'SAME_DATE')
        OR EXISTS (
            SELECT 1
            FROM {{schema}}.CFG_TASK_DEPENDENCY e
            JOIN {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
                ON c.TASK_DEPENDENCY_ID = e.TASK_DEPENDENCY_ID AND c.CONSUMED_PIPELINE_RUN_ID = r.PIPELINE_RUN_ID
            WHERE c.DEPENDS_ON_PIPELINE_ID = r.PIPELINE_ID AND e.MATCH = 'SAME_DATE'))
        AND EXISTS (
            SELECT 1
            FROM {{schema}}.AUD_PIPELINES_RUN_LOG o
            WHERE o.PIPELINE_ID = r.PIPELINE_ID AND o.RUN_DATE = r.RUN_DATE AND o.PIPELINE_RUN_ID < r.PIPELINE_RUN_ID)
        THEN 'GATE'
    WHEN r.PIPELINE_RUN_ID < $5 OR r.STATUS NOT IN ('SUCCESS', 'FAILED', 'SKIPPED') THEN ''
    WHEN EXISTS (
        SELECT 1
        FROM {{schema}}.CFG_PIPELINE_DEPENDENCY e
        WHERE e.DEPENDS_ON_PIPELINE_ID = r.PIPELINE_ID AND e.ACTIVE_FLAG = 'Y'
            AND (
                e.DEPENDENCY_TYPE = 'SUCCESS' AND r.STATUS = 'SUCCESS'
                OR e.DEPENDENCY_TYPE = 'FAILURE' AND r.STATUS = 'FAILED'
                OR e.DEPENDENCY_TYPE = 'ALWAYS'
                OR e.DEPENDENCY_TYPE = 'HAS_DATA' AND r.STATUS = 'SUCCESS' AND EXISTS (
                    SELECT 1 FROM {{schema}}.AUD_TASK_RUN_LOG l
                    WHERE l.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID AND l.ROWS_WRITTEN > 0))
            AND (
                r.PIPELINE_RUN_ID > COALESCE((
                    SELECT MAX(c.CONSUMED_PIPELINE_RUN_ID) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
                    WHERE c.PIPELINE_DEPENDENCY_ID = e.PIPELINE_DEPENDENCY_ID AND (e.MATCH <> 'SAME_DATE' OR EXISTS (
                        SELECT 1 FROM {{schema}}.AUD_PIPELINES_RUN_LOG u
                        WHERE u.PIPELINE_RUN_ID = c.CONSUMED_PIPELINE_RUN_ID AND u.RUN_DATE = r.RUN_DATE))), 0)
                OR e.CONSUME_REPAIRS = 'Y' AND r.OUTPUT_REVISION > COALESCE((
                    SELECT MAX(c.CONSUMED_REVISION) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
                    WHERE c.PIPELINE_DEPENDENCY_ID = e.PIPELINE_DEPENDENCY_ID AND c.CONSUMED_PIPELINE_RUN_ID = r.PIPELINE_RUN_ID), 1)))
        THEN 'GATE'
    WHEN EXISTS (
        SELECT 1
        FROM {{schema}}.AUD_TASK_RUN_LOG l
        JOIN {{schema}}.CFG_TASK_DEPENDENCY e
            ON e.DEPENDS_ON_TASK_ID = l.TASK_ID AND e.PIPELINE_ID <> r.PIPELINE_ID AND e.ACTIVE_FLAG = 'Y'
        WHERE l.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID
            AND (
                e.DEPENDENCY_TYPE = 'SUCCESS' AND l.STATUS = 'SUCCESS'
                OR e.DEPENDENCY_TYPE = 'FAILURE' AND l.STATUS = 'FAILED'
                OR e.DEPENDENCY_TYPE = 'ALWAYS' AND l.STATUS IN ('SUCCESS', 'FAILED', 'SKIPPED')
                OR e.DEPENDENCY_TYPE = 'HAS_DATA' AND l.STATUS = 'SUCCESS' AND l.ROWS_WRITTEN > 0)
            AND (
                r.PIPELINE_RUN_ID > COALESCE((
                    SELECT MAX(c.CONSUMED_PIPELINE_RUN_ID) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
                    WHERE c.TASK_DEPENDENCY_ID = e.TASK_DEPENDENCY_ID AND (e.MATCH <> 'SAME_DATE' OR EXISTS (
                        SELECT 1 FROM {{schema}}.AUD_PIPELINES_RUN_LOG u
                        WHERE u.PIPELINE_RUN_ID = c.CONSUMED_PIPELINE_RUN_ID AND u.RUN_DATE = r.RUN_DATE))), 0)
                OR e.CONSUME_REPAIRS = 'Y' AND r.OUTPUT_REVISION > COALESCE((
                    SELECT MAX(c.CONSUMED_REVISION) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
                    WHERE c.TASK_DEPENDENCY_ID = e.TASK_DEPENDENCY_ID AND c.CONSUMED_PIPELINE_RUN_ID = r.PIPELINE_RUN_ID), 1)))
        THEN 'GATE'
    ELSE ''
END

-- Runs of pipeline $2 that ended before $3, after run $1, with the number of rows that belong to each.
-- name: old_runs
SELECT
    r.PIPELINE_RUN_ID, {{why_kept}},
    (SELECT COUNT(*) FROM {{schema}}.AUD_NOTIFICATIONS n WHERE n.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID),
    (SELECT COUNT(*) FROM {{schema}}.AUD_RUN_INTERVENTIONS i WHERE i.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID),
    (SELECT COUNT(*) FROM {{schema}}.AUD_GATE_WAITS w WHERE w.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID),
    (SELECT COUNT(*) FROM {{schema}}.AUD_GATE_DECISIONS d WHERE d.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID),
    (SELECT COUNT(*) FROM {{schema}}.AUD_TASK_RUN_LOG l JOIN {{schema}}.AUD_TASK_ATTEMPTS a ON a.TASK_RUN_ID = l.TASK_RUN_ID
     WHERE l.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID),
    (SELECT COUNT(*) FROM {{schema}}.AUD_TASK_RUN_LOG l WHERE l.PIPELINE_RUN_ID = r.PIPELINE_RUN_ID)
FROM {{schema}}.AUD_PIPELINES_RUN_LOG r
WHERE r.PIPELINE_ID = $2 AND r.END_DATE < CAST($3 AS {{timestamp}}) AND r.PIPELINE_RUN_ID > $1
ORDER BY r.PIPELINE_RUN_ID
LIMIT $7

-- name: logs_of_runs
SELECT l.PIPELINE_RUN_ID, a.LOG_PATH
FROM {{schema}}.AUD_TASK_RUN_LOG l
JOIN {{schema}}.AUD_TASK_ATTEMPTS a ON a.TASK_RUN_ID = l.TASK_RUN_ID
WHERE l.PIPELINE_RUN_ID {{given}} AND a.LOG_PATH IS NOT NULL
ORDER BY a.ATTEMPT_ID

-- Runs that somebody is changing are left for another time.
-- name: lock_old_runs
SELECT r.PIPELINE_RUN_ID
FROM {{schema}}.AUD_PIPELINES_RUN_LOG r
WHERE r.PIPELINE_RUN_ID {{given}}
ORDER BY r.PIPELINE_RUN_ID
{{skip_locked}}

-- name: runs_that_may_go
SELECT r.PIPELINE_RUN_ID
FROM {{schema}}.AUD_PIPELINES_RUN_LOG r
WHERE r.PIPELINE_RUN_ID {{given}} AND r.PIPELINE_ID = $2 AND r.END_DATE < CAST($3 AS {{timestamp}}) AND {{why_kept}} = ''
ORDER BY r.PIPELINE_RUN_ID

-- name: purge_notifications
DELETE FROM {{schema}}.AUD_NOTIFICATIONS WHERE PIPELINE_RUN_ID {{given}}

-- name: purge_interventions
DELETE FROM {{schema}}.AUD_RUN_INTERVENTIONS WHERE PIPELINE_RUN_ID {{given}}

-- name: purge_waits_of_runs
DELETE FROM {{schema}}.AUD_GATE_WAITS WHERE PIPELINE_RUN_ID {{given}}

-- name: purge_decisions_of_runs
DELETE FROM {{schema}}.AUD_GATE_DECISIONS WHERE PIPELINE_RUN_ID {{given}}

-- name: task_runs_of_runs
SELECT TASK_RUN_ID FROM {{schema}}.AUD_TASK_RUN_LOG WHERE PIPELINE_RUN_ID {{given}}

-- The list is of task runs here.
-- name: purge_attempts
DELETE FROM {{schema}}.AUD_TASK_ATTEMPTS WHERE TASK_RUN_ID {{given}}

-- name: purge_task_runs
DELETE FROM {{schema}}.AUD_TASK_RUN_LOG WHERE PIPELINE_RUN_ID {{given}}

-- name: purge_runs
DELETE FROM {{schema}}.AUD_PIPELINES_RUN_LOG WHERE PIPELINE_RUN_ID {{given}}

-- Rows that belong to no run: of pipeline $1 or, with 0, of all, from before $2, after row $3, at most $4.

-- name: old_decisions
SELECT d.DECISION_ID
FROM {{schema}}.AUD_GATE_DECISIONS d
WHERE d.PIPELINE_RUN_ID IS NULL AND d.DECIDED_AT < CAST($2 AS {{timestamp}}) AND d.DECISION_ID > $3 AND ($1 = 0 OR d.PIPELINE_ID = $1)
ORDER BY d.DECISION_ID
LIMIT $4

-- name: purge_decisions
DELETE FROM {{schema}}.AUD_GATE_DECISIONS WHERE DECISION_ID {{given}}

-- name: old_waits
SELECT w.GATE_WAIT_ID
FROM {{schema}}.AUD_GATE_WAITS w
WHERE w.PIPELINE_RUN_ID IS NULL AND w.NEXT_CHECK_AT IS NULL AND w.FIRST_CHECK_AT < CAST($2 AS {{timestamp}})
    AND w.WAIT_UNTIL < CAST($2 AS {{timestamp}}) AND w.GATE_WAIT_ID > $3 AND ($1 = 0 OR w.PIPELINE_ID = $1)
ORDER BY w.GATE_WAIT_ID
LIMIT $4

-- name: purge_waits
DELETE FROM {{schema}}.AUD_GATE_WAITS WHERE GATE_WAIT_ID {{given}}

-- name: old_pauses
SELECT s.PAUSE_ID
FROM {{schema}}.AUD_PIPELINE_PAUSES s
WHERE s.RESUMED_AT < CAST($2 AS {{timestamp}}) AND s.PAUSE_ID > $3 AND ($1 = 0 OR s.PIPELINE_ID = $1)
ORDER BY s.PAUSE_ID
LIMIT $4

-- name: purge_pauses
DELETE FROM {{schema}}.AUD_PIPELINE_PAUSES WHERE PAUSE_ID {{given}}

-- A command without an outcome may be under way; after $5 at the latest it is taken for killed.
-- name: old_actions
SELECT a.ACTION_ID
FROM {{schema}}.AUD_ACTIONS a
WHERE a.STARTED_AT < CAST($2 AS {{timestamp}}) AND a.ACTION_ID > $3 AND ($1 = 0 OR a.PIPELINE_ID = $1)
    AND (a.ENDED_AT < CAST($2 AS {{timestamp}}) OR a.ENDED_AT IS NULL AND a.STARTED_AT < CAST($5 AS {{timestamp}}))
ORDER BY a.ACTION_ID
LIMIT $4

-- name: purge_actions
DELETE FROM {{schema}}.AUD_ACTIONS WHERE ACTION_ID {{given}}

-- What a dependency has used up, but for the newest run, with which of the two runs are there still.
-- name: old_consumption
SELECT
    c.CONSUMPTION_ID, c.PIPELINE_RUN_ID, c.CONSUMED_PIPELINE_RUN_ID,
    CASE WHEN EXISTS (SELECT 1 FROM {{schema}}.AUD_PIPELINES_RUN_LOG r WHERE r.PIPELINE_RUN_ID = c.PIPELINE_RUN_ID) THEN 'Y' ELSE 'N' END,
    CASE WHEN EXISTS (SELECT 1 FROM {{schema}}.AUD_PIPELINES_RUN_LOG r WHERE r.PIPELINE_RUN_ID = c.CONSUMED_PIPELINE_RUN_ID) THEN 'Y' ELSE 'N' END
FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION c
WHERE c.CONSUMED_AT < CAST($2 AS {{timestamp}}) AND c.CONSUMPTION_ID > $3 AND ($1 = 0 OR c.PIPELINE_ID = $1)
    AND c.CONSUMED_PIPELINE_RUN_ID < COALESCE(
        (SELECT MAX(n.CONSUMED_PIPELINE_RUN_ID) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION n
         WHERE n.PIPELINE_DEPENDENCY_ID = c.PIPELINE_DEPENDENCY_ID),
        (SELECT MAX(n.CONSUMED_PIPELINE_RUN_ID) FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION n
         WHERE n.TASK_DEPENDENCY_ID = c.TASK_DEPENDENCY_ID))
ORDER BY c.CONSUMPTION_ID
LIMIT $4

-- name: purge_consumption
DELETE FROM {{schema}}.AUD_DEPENDENCY_CONSUMPTION WHERE CONSUMPTION_ID {{given}}
