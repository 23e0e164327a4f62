MERGE INTO {{.Target}} AS t
USING (
  SELECT CASE WHEN o.op = 'close' THEN s.id END AS closed_id, s.id, s.name, s.city, s.qty, s.amount, s.hash_key
  FROM (
    SELECT id, name, city, qty, amount, md5(concat(coalesce(concat('V', length(name), ':', name), 'N'), coalesce(concat('V', length(city), ':', city), 'N'), coalesce(concat('V', length(CAST(qty AS string)), ':', CAST(qty AS string)), 'N'))) AS hash_key
    FROM {{.Source}}
  ) AS s
  LEFT JOIN {{.Target}} AS old ON old.id = s.id AND old.active_flag = 'Y'
  CROSS JOIN (SELECT 'close' AS op UNION ALL SELECT 'open') AS o
  WHERE (old.id IS NULL OR old.hash_key IS DISTINCT FROM s.hash_key OR old.delete_flag = 'Y')
    AND (o.op = 'open' OR old.id IS NOT NULL)
) AS s
ON t.id = s.closed_id AND t.active_flag = 'Y'
WHEN MATCHED THEN UPDATE SET
  active_flag = 'N', update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0
WHEN NOT MATCHED THEN INSERT (id, name, city, qty, amount, hash_key, pipeline_id, pipeline_run_id, task_run_id, create_date, created_by, update_date, updated_by, delete_flag, active_flag)
VALUES (s.id, s.name, s.city, s.qty, s.amount, s.hash_key, 0, 0, 0, now(), 'hand', now(), 'hand', 'N', 'Y');
