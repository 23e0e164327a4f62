-- What doctor looks at.

-- name: unfinished_since
SELECT p.PIPELINE_CODE, r.PIPELINE_RUN_ID, r.START_DATE
FROM {{schema}}.AUD_PIPELINES_RUN_LOG r
JOIN {{schema}}.CFG_PIPELINES p ON p.PIPELINE_ID = r.PIPELINE_ID
WHERE r.STATUS IN ('QUEUED', 'IN_PROGRESS') AND r.START_DATE < {{now+$1}}
ORDER BY r.PIPELINE_RUN_ID + 0 -- else SQLite goes through the whole table in this order

-- name: undelivered
SELECT n.WEBHOOK, n.STATUS, COUNT(*), MIN(n.CREATED_AT)
FROM {{schema}}.AUD_NOTIFICATIONS n
WHERE n.STATUS = 'PENDING' AND n.CREATED_AT < {{now+$1}} OR n.STATUS = 'FAILED' AND n.CREATED_AT > {{now+$2}}
GROUP BY n.WEBHOOK, n.STATUS
ORDER BY n.WEBHOOK, n.STATUS

-- Waits that nobody has looked after since $1; each with whether it has run out too.
-- name: stale_waits
SELECT p.PIPELINE_CODE, w.PIPELINE_ID, COALESCE(w.PIPELINE_RUN_ID, 0), COALESCE(w.TASK_ID, 0), w.NEXT_CHECK_AT,
    CASE WHEN w.WAIT_UNTIL < {{now}} THEN 'Y' ELSE 'N' END
FROM {{schema}}.AUD_GATE_WAITS w
JOIN {{schema}}.CFG_PIPELINES p ON p.PIPELINE_ID = w.PIPELINE_ID
WHERE w.NEXT_CHECK_AT IS NOT NULL AND w.NEXT_CHECK_AT < {{now+$1}}
ORDER BY w.GATE_WAIT_ID + 0 -- as above

-- name: scratch_owner
SELECT l.TARGET_OBJECT, l.STATUS, COALESCE((
    SELECT a.ATTEMPT_NUMBER FROM {{schema}}.AUD_TASK_ATTEMPTS a
    WHERE a.TASK_RUN_ID = l.TASK_RUN_ID AND a.STATUS IN ('QUEUED', 'RUNNING')), 0)
FROM {{schema}}.AUD_TASK_RUN_LOG l
WHERE l.TASK_RUN_ID = $1

-- Numbers of attempts are not given out again, so that their span is the number of rows, but for what a purge took out.
-- name: extent
SELECT
    (SELECT r.START_DATE FROM {{schema}}.AUD_PIPELINES_RUN_LOG r ORDER BY r.PIPELINE_RUN_ID LIMIT 1),
    COALESCE((SELECT MAX(a.ATTEMPT_ID) FROM {{schema}}.AUD_TASK_ATTEMPTS a), 0)
        - COALESCE((SELECT MIN(a.ATTEMPT_ID) FROM {{schema}}.AUD_TASK_ATTEMPTS a), 1) + 1
