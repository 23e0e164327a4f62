-- The Engine DB itself.

-- name: engine_version
SELECT COALESCE(MAX(VERSION), 0) FROM {{schema}}.SCHEMA_MIGRATIONS WHERE SOURCE = 'ENGINE'

-- name: now
SELECT {{now}}
