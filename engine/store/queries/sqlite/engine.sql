-- SQLite keeps its counters in a table, PostgreSQL in sequences.

-- name: raise_ids
UPDATE sqlite_sequence SET seq = $1 WHERE name IN ('AUD_PIPELINES_RUN_LOG', 'AUD_TASK_RUN_LOG') AND seq < $1

-- One row for the triggers of CFG_ tables; PostgreSQL has settings of the transaction for that.

-- name: begin_session
INSERT INTO ENGINE_SESSION (SESSION_ID, ACTOR, ACTOR_KIND, ORIGIN) VALUES (1, $1, $2, $3)
ON CONFLICT (SESSION_ID) DO UPDATE SET ACTOR = excluded.ACTOR, ACTOR_KIND = excluded.ACTOR_KIND, ORIGIN = excluded.ORIGIN

-- name: end_session
DELETE FROM ENGINE_SESSION
