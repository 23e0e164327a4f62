-- PostgreSQL keeps its counters in sequences, SQLite in a table.

-- name: raise_ids
SELECT
    setval('{{schema}}.AUD_PIPELINES_RUN_LOG_PIPELINE_RUN_ID_SEQ', GREATEST(r.last_value, $1)),
    setval('{{schema}}.AUD_TASK_RUN_LOG_TASK_RUN_ID_SEQ', GREATEST(t.last_value, $1))
FROM {{schema}}.AUD_PIPELINES_RUN_LOG_PIPELINE_RUN_ID_SEQ r, {{schema}}.AUD_TASK_RUN_LOG_TASK_RUN_ID_SEQ t

-- Settings of the transaction for the triggers of CFG_ tables; SQLite has a table for that. They end with it.

-- name: begin_session
SELECT
    set_config('etl_craft.actor', $1, true),
    set_config('etl_craft.actor_kind', $2, true),
    set_config('etl_craft.origin', COALESCE($3, ''), true)
