-- The databases read lists out of JSON in different ways.

-- name: given_ids
SELECT CAST(v AS bigint) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) AS g (v)
