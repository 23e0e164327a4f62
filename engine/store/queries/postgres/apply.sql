-- Two processes that apply take turns; on SQLite there is one writer anyway. Readers, runs included, are not held up.

-- name: lock_metadata
LOCK TABLE {{schema}}.CFG_PIPELINES IN SHARE ROW EXCLUSIVE MODE
