-- CREATE_TABLE WAREHOUSE.SALES.ORDERS from SOURCE_SQL

-- 1 make the table from the SELECT
-- readers see the old table or the new one
CREATE OR REPLACE ICEBERG TABLE "WAREHOUSE"."SALES"."ORDERS"
  EXTERNAL_VOLUME = 'SNOWFLAKE_MANAGED'
  CATALOG = 'SNOWFLAKE'
  COPY GRANTS
AS
SELECT
  CAST(s."ORDER_ID" AS NUMBER(38,0)) AS "ORDER_ID",
  CAST(s."CUSTOMER" AS VARCHAR) AS "CUSTOMER",
  CAST(s."AMOUNT" AS NUMBER(12,2)) AS "AMOUNT",
  CAST(3 AS NUMBER(19,0)) AS "PIPELINE_ID",
  CAST(<pipeline_run_id> AS NUMBER(19,0)) AS "PIPELINE_RUN_ID",
  CAST(<task_run_id> AS NUMBER(19,0)) AS "TASK_RUN_ID",
  CAST((SELECT coalesce(max(row_id), 0) FROM "WAREHOUSE"."SALES"."ORDERS") + row_number() OVER (ORDER BY 1) AS NUMBER(19,0)) AS "ROW_ID"
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS s;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";

-- 3 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";

-- 4 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."ORDERS";
