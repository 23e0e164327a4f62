BEGIN;
INSERT INTO {{.Target}} (id, name, city, qty, amount, pipeline_id, pipeline_run_id, task_run_id, create_date, row_id)
SELECT id, name, city, qty, amount, 0, 0, 0, now(), (SELECT coalesce(max(row_id), 0) FROM {{.Target}}) + row_number() OVER ()
FROM {{.Source}};
COMMIT;
