-- The databases read lists out of JSON in different ways, and say in different ways that a transaction is for retention.
-- By a list that is an array PostgreSQL looks up rows in an index, whatever it believes of the size of the tables.

-- name: given
= ANY (ARRAY(SELECT CAST(g.v AS bigint) FROM jsonb_array_elements_text(CAST($1 AS jsonb)) AS g (v)))

-- name: begin_retention
SELECT set_config('etl_craft.purpose', 'retention', true)
