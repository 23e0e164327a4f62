BEGIN;
UPDATE {{.Target}}
SET delete_flag = 'Y', update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0
WHERE id IN (SELECT id FROM {{.Source}}) AND delete_flag IS DISTINCT FROM 'Y';
COMMIT;
