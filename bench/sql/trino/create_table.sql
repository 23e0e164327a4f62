CREATE OR REPLACE TABLE {{.Target}} AS
SELECT id, name, city, qty, amount, CAST(0 AS bigint) AS pipeline_id, CAST(0 AS bigint) AS pipeline_run_id, CAST(0 AS bigint) AS task_run_id, CAST(row_number() OVER () AS bigint) AS row_id
FROM {{.Source}};
