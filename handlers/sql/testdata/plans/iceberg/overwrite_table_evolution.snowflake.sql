-- OVERWRITE_TABLE WAREHOUSE.SALES.ORDERS from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT
  CAST("ORDER_ID" AS NUMBER(38,0)) AS "ORDER_ID",
  CAST("CUSTOMER" AS VARCHAR) AS "CUSTOMER",
  CAST("AMOUNT" AS NUMBER(12,2)) AS "AMOUNT",
  CAST("NOTE" AS VARCHAR) AS "NOTE"
FROM (
SELECT *, 'x' AS note FROM (SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS o
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 3 add column NOTE
ALTER ICEBERG TABLE "WAREHOUSE"."SALES"."ORDERS" ADD COLUMN "NOTE" VARCHAR;

-- 4 replace the rows
-- readers see the old rows or the new ones
INSERT OVERWRITE INTO "WAREHOUSE"."SALES"."ORDERS" (
  "ORDER_ID",
  "CUSTOMER",
  "AMOUNT",
  "NOTE",
  "PIPELINE_ID",
  "PIPELINE_RUN_ID",
  "TASK_RUN_ID",
  "UPDATE_DATE",
  "ROW_ID"
)
SELECT
  s."ORDER_ID",
  s."CUSTOMER",
  s."AMOUNT",
  s."NOTE",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  <now>,
  (SELECT coalesce(max(row_id), 0) FROM "WAREHOUSE"."SALES"."ORDERS") + row_number() OVER (ORDER BY 1)
FROM "etl_stage_<task_run_id>_<token>" AS s;

-- 5 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 6 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";

-- 7 drop scratch (always)
DROP TABLE IF EXISTS "etl_stage_<task_run_id>_<token>";
