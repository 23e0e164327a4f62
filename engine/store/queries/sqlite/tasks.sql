-- The databases read rows out of JSON in different ways. The + keeps SQLite from reading the JSON once per task of the run.

-- name: skip_tasks
UPDATE AUD_TASK_RUN_LOG
SET STATUS = 'SKIPPED', SKIP_REASON = s.REASON, ERROR_MESSAGE = s.MESSAGE, END_DATE = {{now}}, NOT_BEFORE = NULL
FROM (
    SELECT
        json_extract(value, '$.task_run_id') AS TASK_RUN_ID,
        json_extract(value, '$.reason') AS REASON,
        json_extract(value, '$.message') AS MESSAGE
    FROM json_each($2)
) s
WHERE AUD_TASK_RUN_LOG.TASK_RUN_ID = s.TASK_RUN_ID
    AND +AUD_TASK_RUN_LOG.PIPELINE_RUN_ID = $1
    AND AUD_TASK_RUN_LOG.STATUS = 'PENDING'
