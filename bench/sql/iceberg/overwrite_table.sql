BEGIN;
CREATE OR REPLACE TEMP TABLE highest AS SELECT max(row_id) AS row_id FROM {{.Target}};
DELETE FROM {{.Target}};
INSERT INTO {{.Target}} (id, name, city, qty, amount, pipeline_id, pipeline_run_id, task_run_id, update_date, row_id)
SELECT id, name, city, qty, amount, 0, 0, 0, now(), (SELECT coalesce(row_id, 0) FROM highest) + row_number() OVER ()
FROM {{.Source}};
COMMIT;
