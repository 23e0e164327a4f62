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

-- 5 rows to delete (counts DELETE_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS" AS t
JOIN "etl_change_<task_run_id>_<token>" AS c
  ON t."CUSTOMER_ID" = c."CUSTOMER_ID";

-- 6 first row to delete (remembers the row, only if DELETE_COUNT > 0)
-- its absence will prove the commit
SELECT min(t.row_id) FROM "WAREHOUSE"."SALES"."CUSTOMERS" AS t
JOIN "etl_change_<task_run_id>_<token>" AS c
  ON t."CUSTOMER_ID" = c."CUSTOMER_ID";

-- 7 delete rows (only if DELETE_COUNT > 0)
-- nothing when the target is no longer as it was classified
MERGE INTO "WAREHOUSE"."SALES"."CUSTOMERS" AS t
USING (
  SELECT "CUSTOMER_ID"
  FROM "etl_change_<task_run_id>_<token>"
  WHERE etl_version IS NOT DISTINCT FROM SYSTEM$LAST_CHANGE_COMMIT_TIME('"WAREHOUSE"."SALES"."CUSTOMERS"')
) AS s
ON t."CUSTOMER_ID" = s."CUSTOMER_ID"
WHEN MATCHED THEN DELETE;

-- 8 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS";

-- 9 drop scratch (always)
DROP TABLE IF EXISTS "etl_change_<task_run_id>_<token>";

-- 10 drop scratch (always)
DROP TABLE IF EXISTS "etl_stage_<task_run_id>_<token>";
