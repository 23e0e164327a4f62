-- CREATE_TABLE lake.sales.orders from SOURCE_SQL

-- 1 create the schema
-- alone, as the transaction needs it
CREATE SCHEMA IF NOT EXISTS "sales";

BEGIN;

-- 2 create the table
-- nobody sees it before the commit
CREATE TABLE "sales"."orders" (
  "order_id" BIGINT,
  "customer" VARCHAR,
  "amount" DECIMAL(12,2),
  "pipeline_id" BIGINT,
  "pipeline_run_id" BIGINT,
  "task_run_id" BIGINT,
  "row_id" BIGINT
);

-- 3 stage the SELECT
INSERT INTO "sales"."orders" (
  "order_id",
  "customer",
  "amount",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "row_id"
)
SELECT
  s."order_id",
  s."customer",
  s."amount",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  row_number() OVER ()
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS s;

-- 4 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "sales"."orders";

-- 5 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "sales"."orders";

-- 6 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."orders";

COMMIT;
