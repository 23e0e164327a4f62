MERGE INTO {{.Target}} AS t
USING (
  SELECT id, name, city, qty, amount, md5(concat(coalesce(concat('V', length(name), ':', name), 'N'), coalesce(concat('V', length(city), ':', city), 'N'), coalesce(concat('V', length(CAST(qty AS string)), ':', CAST(qty AS string)), 'N'))) AS hash_key
  FROM {{.Source}}
) AS s
ON t.id = s.id
WHEN MATCHED AND (t.hash_key IS DISTINCT FROM s.hash_key OR t.delete_flag = 'Y') THEN UPDATE SET
  name = s.name, city = s.city, qty = s.qty, amount = s.amount, hash_key = s.hash_key, delete_flag = 'N',
  update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0
WHEN NOT MATCHED THEN INSERT (id, name, city, qty, amount, hash_key, pipeline_id, pipeline_run_id, task_run_id, create_date, created_by, update_date, updated_by, delete_flag)
VALUES (s.id, s.name, s.city, s.qty, s.amount, s.hash_key, 0, 0, 0, now(), 'hand', now(), 'hand', 'N');
