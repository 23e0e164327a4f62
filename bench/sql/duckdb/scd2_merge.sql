BEGIN;
CREATE TEMP TABLE stage AS
SELECT id, name, city, qty, amount, md5(concat(CASE WHEN name IS NULL THEN 'N' ELSE concat('V', length(name), ':', name) END, CASE WHEN city IS NULL THEN 'N' ELSE concat('V', length(city), ':', city) END, CASE WHEN qty IS NULL THEN 'N' ELSE concat('V', length(qty::VARCHAR), ':', qty::VARCHAR) END)) AS hash_key
FROM {{.Source}};
UPDATE {{.Target}} AS t
SET active_flag = 'N', update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0
FROM stage AS s
WHERE t.id = s.id AND t.active_flag = 'Y' AND (t.hash_key IS DISTINCT FROM s.hash_key OR t.delete_flag = 'Y');
INSERT INTO {{.Target}} (id, name, city, qty, amount, hash_key, pipeline_id, pipeline_run_id, task_run_id, create_date, created_by, update_date, updated_by, delete_flag, active_flag)
SELECT id, name, city, qty, amount, hash_key, 0, 0, 0, now(), 'hand', now(), 'hand', 'N', 'Y'
FROM stage AS s
WHERE NOT EXISTS (SELECT 1 FROM {{.Target}} AS t WHERE t.id = s.id AND t.active_flag = 'Y');
COMMIT;
