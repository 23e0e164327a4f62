BEGIN;
DELETE FROM {{.Target}};
INSERT INTO {{.Target}} (id, name, city, qty, amount, pipeline_id, pipeline_run_id, task_run_id, update_date)
SELECT id, name, city, qty, amount, 0, 0, 0, now()
FROM {{.Source}};
COMMIT;
