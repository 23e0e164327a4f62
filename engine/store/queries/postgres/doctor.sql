-- Privileges and sizes are in PostgreSQL's catalog.

-- name: size
SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c
WHERE c.relnamespace = to_regnamespace('{{schema}}') AND c.relkind = 'r'

-- $1 is a JSON list of tables with a privilege each. In its order.
-- name: missing_privileges
SELECT w.e ->> 'table', w.e ->> 'privilege'
FROM jsonb_array_elements(CAST($1 AS jsonb)) WITH ORDINALITY AS w (e, n)
WHERE NOT has_table_privilege('{{schema}}.' || (w.e ->> 'table'), w.e ->> 'privilege')
ORDER BY w.n

-- name: who_am_i
SELECT current_user, current_database(), has_schema_privilege(to_regnamespace('{{schema}}')::oid, 'CREATE')

-- What belongs to another role than $1, as ALTER names it.
-- name: owned_by_others
SELECT format('TABLE %s.%I', '{{schema}}', c.relname) FROM pg_class c
WHERE c.relnamespace = to_regnamespace('{{schema}}') AND c.relkind IN ('r', 'v') AND pg_get_userbyid(c.relowner) <> $1
    AND (c.relname LIKE 'aud\_%' OR c.relname LIKE 'cfg\_%' OR c.relname IN ('schema_migrations', 'engine_task_names'))
UNION ALL
SELECT format('FUNCTION %s.%I(%s)', '{{schema}}', f.proname, pg_get_function_identity_arguments(f.oid)) FROM pg_proc f
WHERE f.pronamespace = to_regnamespace('{{schema}}') AND pg_get_userbyid(f.proowner) <> $1
    AND f.proname IN ('fill_depends_on_pipeline', 'record_change', 'refuse_change', 'stamp_row')
ORDER BY 1
