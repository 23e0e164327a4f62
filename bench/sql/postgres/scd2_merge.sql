BEGIN;
CREATE TEMP TABLE stage ON COMMIT DROP AS
SELECT id, name, city, qty, amount, md5(convert_to(coalesce('V' || char_length(name) || ':' || name, 'N') || coalesce('V' || char_length(city) || ':' || city, 'N') || coalesce('V' || char_length(qty::text) || ':' || qty, 'N'), 'UTF8')) AS hash_key
FROM {{.Source}};
ANALYZE stage;
UPDATE {{.Target}} AS t
SET active_flag = 'N', update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0
FROM stage AS s
WHERE t.id = s.id AND t.active_flag = 'Y' AND (t.hash_key IS DISTINCT FROM s.hash_key OR t.delete_flag = 'Y');
INSERT INTO {{.Target}} (id, name, city, qty, amount, hash_key, pipeline_id, pipeline_run_id, task_run_id, create_date, created_by, update_date, updated_by, delete_flag, active_flag)
SELECT id, name, city, qty, amount, hash_key, 0, 0, 0, now(), 'hand', now(), 'hand', 'N', 'Y'
FROM stage AS s
WHERE NOT EXISTS (SELECT 1 FROM {{.Target}} AS t WHERE t.id = s.id AND t.active_flag = 'Y');
COMMIT;
