MERGE INTO {{.Target}} AS t
USING (
  SELECT id, name, city, qty, amount, lower(to_hex(md5(to_utf8(array_join(transform(ARRAY[name, city, CAST(qty AS varchar)], v -> coalesce('V' || CAST(length(v) AS varchar) || ':' || v, 'N')), ''))))) AS hash_key, (SELECT coalesce(max(row_id), 0) FROM {{.Target}}) + row_number() OVER () AS row_id
  FROM {{.Source}}
) AS s
ON t.id = s.id
WHEN MATCHED AND (t.hash_key IS DISTINCT FROM s.hash_key OR t.delete_flag = 'Y') THEN UPDATE SET
  name = s.name, city = s.city, qty = s.qty, amount = s.amount, hash_key = s.hash_key, delete_flag = 'N',
  update_date = now(), updated_by = 'hand', pipeline_id = 0, pipeline_run_id = 0, task_run_id = 0
WHEN NOT MATCHED THEN INSERT (id, name, city, qty, amount, hash_key, pipeline_id, pipeline_run_id, task_run_id, create_date, created_by, update_date, updated_by, delete_flag, row_id)
VALUES (s.id, s.name, s.city, s.qty, s.amount, s.hash_key, 0, 0, 0, now(), 'hand', now(), 'hand', 'N', s.row_id);
