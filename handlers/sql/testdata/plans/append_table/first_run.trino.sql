-- APPEND_TABLE iceberg.sales.orders from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TABLE "iceberg"."sales"."etl_stage_<task_run_id>_<token>" AS
SELECT
  CAST("order_id" AS bigint) AS "order_id",
  CAST("customer" AS varchar) AS "customer",
  CAST("amount" AS decimal(12,2)) AS "amount"
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>";

-- 3 insert the batch
INSERT INTO "iceberg"."sales"."orders" (
  "order_id",
  "customer",
  "amount",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "create_date",
  "row_id"
)
SELECT
  s."order_id",
  s."customer",
  s."amount",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  <now>,
  (SELECT coalesce(max(row_id), 0) FROM "iceberg"."sales"."orders") + row_number() OVER ()
FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>" AS s;

-- 4 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>";

-- 5 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "iceberg"."sales"."orders";

-- 6 drop scratch (always)
DROP TABLE IF EXISTS "iceberg"."sales"."etl_stage_<task_run_id>_<token>";
