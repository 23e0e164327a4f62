-- CREATE_TABLE WAREHOUSE.SALES.ORDERS from SOURCE_SQL

-- 1 create the schema
CREATE SCHEMA IF NOT EXISTS "WAREHOUSE"."SALES";

-- 2 go back to the session's schema
-- which the SELECT's names are of
USE SCHEMA "WAREHOUSE"."SCRATCH";

-- 3 make the table from the SELECT
-- readers see the old table or the new one
CREATE ICEBERG TABLE "WAREHOUSE"."SALES"."ORDERS"
  EXTERNAL_VOLUME = 'SNOWFLAKE_MANAGED'
  CATALOG = 'SNOWFLAKE'
AS
SELECT
  CAST(s."ORDER_ID" AS NUMBER(38,0)) AS "ORDER_ID",
  CAST(s."CUSTOMER" AS VARCHAR) AS "CUSTOMER",
  CAST(s."AMOUNT" AS NUMBER(12,2)) AS "AMOUNT",
  CAST(3 AS NUMBER(19,0)) AS "PIPELINE_ID",
  CAST(<pipeline_run_id> AS NUMBER(19,0)) AS "PIPELINE_RUN_ID",
  CAST(<task_run_id> AS NUMBER(19,0)) AS "TASK_RUN_ID",
  CAST(row_number() OVER (ORDER BY 1) AS NUMBER(19,0)) AS "ROW_ID"
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS s;

-- 4 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";

-- 5 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";

-- 6 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";
