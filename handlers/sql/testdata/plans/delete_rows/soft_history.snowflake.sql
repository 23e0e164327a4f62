-- DELETE_ROWS WAREHOUSE.SALES.CUSTOMERS from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT
  CAST("CUSTOMER_ID" AS NUMBER(38,0)) AS "CUSTOMER_ID"
FROM (
SELECT customer_id FROM raw.gone
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 3 NULL merge keys (fails when > 0)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>"
WHERE "CUSTOMER_ID" IS NULL;

-- 4 classify
-- each key once
CREATE TEMP TABLE "etl_change_<task_run_id>_<token>" AS
SELECT DISTINCT "CUSTOMER_ID", SYSTEM$LAST_CHANGE_COMMIT_TIME('"WAREHOUSE"."SALES"."CUSTOMERS"') AS etl_version
FROM "etl_stage_<task_run_id>_<token>";

-- 5 rows to flag (counts UPDATE_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS" AS t
JOIN "etl_change_<task_run_id>_<token>" AS c
  ON t."CUSTOMER_ID" = c."CUSTOMER_ID"
  AND t.delete_flag IS DISTINCT FROM 'Y'
  AND t.active_flag = 'Y';

-- 6 flag rows (only if UPDATE_COUNT > 0)
-- nothing when the target is no longer as it was classified
MERGE INTO "WAREHOUSE"."SALES"."CUSTOMERS" AS t
USING (
  SELECT "CUSTOMER_ID"
  FROM "etl_change_<task_run_id>_<token>"
  WHERE etl_version IS NOT DISTINCT FROM SYSTEM$LAST_CHANGE_COMMIT_TIME('"WAREHOUSE"."SALES"."CUSTOMERS"')
) AS s
ON t."CUSTOMER_ID" = s."CUSTOMER_ID"
  AND t.delete_flag IS DISTINCT FROM 'Y'
  AND t.active_flag = 'Y'
WHEN MATCHED THEN UPDATE SET
  "DELETE_FLAG" = 'Y',
  "UPDATE_DATE" = <now>,
  "UPDATED_BY" = 'duckdb',
  "PIPELINE_ID" = 3,
  "PIPELINE_RUN_ID" = <pipeline_run_id>,
  "TASK_RUN_ID" = <task_run_id>;

-- 7 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS";

-- 8 drop scratch (always)
DROP TABLE IF EXISTS "etl_change_<task_run_id>_<token>";

-- 9 drop scratch (always)
DROP TABLE IF EXISTS "etl_stage_<task_run_id>_<token>";
