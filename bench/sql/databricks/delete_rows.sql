MERGE INTO {{.Target}} AS t
USING (SELECT DISTINCT id FROM {{.Source}}) AS s
ON t.id = s.id AND t.delete_flag IS DISTINCT FROM 'Y'
WHEN MATCHED THEN UPDATE SET
  delete_flag = 'Y', update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0;
