-- The databases read lists out of JSON in different ways.

-- name: given_ids
SELECT value FROM json_each($2)
