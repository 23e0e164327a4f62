CREATE OR REPLACE TABLE {{.Target}} AS
SELECT
  id, name, city, qty, amount, CAST(0 AS bigint) AS pipeline_id, CAST(0 AS bigint) AS pipeline_run_id, CAST(0 AS bigint) AS task_run_id,
  CAST(now() AS timestamp(6) with time zone) AS update_date, (SELECT coalesce(max(row_id), 0) FROM {{.Target}}) + row_number() OVER () AS row_id
FROM {{.Source}};
