-- The databases read lists out of JSON in different ways, and say in different ways that a transaction is for retention.

-- name: given
IN (SELECT value FROM json_each($1))

-- name: begin_retention
INSERT INTO ENGINE_SESSION (SESSION_ID, ACTOR, ACTOR_KIND, PURPOSE) VALUES (1, 'purge', 'SYSTEM', 'retention')
