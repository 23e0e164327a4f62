-- The databases read rows out of JSON in different ways.

-- name: skip_tasks
UPDATE {{schema}}.AUD_TASK_RUN_LOG l
SET STATUS = 'SKIPPED', SKIP_REASON = s.reason, ERROR_MESSAGE = s.message, END_DATE = {{now}}, NOT_BEFORE = NULL
FROM jsonb_to_recordset(CAST($2 AS jsonb)) AS s (task_run_id bigint, reason text, message text)
WHERE l.TASK_RUN_ID = s.task_run_id AND l.PIPELINE_RUN_ID = $1 AND l.STATUS = 'PENDING'
