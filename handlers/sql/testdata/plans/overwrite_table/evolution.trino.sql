-- OVERWRITE_TABLE iceberg.sales.orders from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TABLE "iceberg"."sales"."etl_stage_<task_run_id>_<token>" AS
SELECT
  CAST("order_id" AS bigint) AS "order_id",
  CAST("customer" AS varchar) AS "customer",
  CAST("amount" AS decimal(12,2)) AS "amount",
  CAST("note" AS varchar) AS "note"
FROM (
SELECT *, 'x' AS note FROM (SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS o
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>";

-- 3 replace the rows
-- readers see the old rows or the new ones
CREATE OR REPLACE TABLE "iceberg"."sales"."orders"
WITH (
   format = 'PARQUET',
   format_version = 2,
   max_commit_retry = 4
) AS
SELECT
  CAST(s."order_id" AS bigint) AS "order_id",
  CAST(s."customer" AS varchar) AS "customer",
  CAST(s."amount" AS decimal(12,2)) AS "amount",
  CAST(3 AS bigint) AS "pipeline_id",
  CAST(<pipeline_run_id> AS bigint) AS "pipeline_run_id",
  CAST(<task_run_id> AS bigint) AS "task_run_id",
  CAST(<now> AS timestamp(6) with time zone) AS "update_date",
  CAST((SELECT coalesce(max(row_id), 0) FROM "iceberg"."sales"."orders") + row_number() OVER () AS bigint) AS "row_id",
  CAST(s."note" AS varchar) AS "note"
FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>" AS s;

-- 4 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>";

-- 5 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "iceberg"."sales"."orders";

-- 6 drop scratch (always)
DROP TABLE IF EXISTS "iceberg"."sales"."etl_stage_<task_run_id>_<token>";
