-- DELETE_ROWS lake.sales.customers from SOURCE_SQL

BEGIN;

-- 1 create the stage
-- with the types that the target stores
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" (
  "customer_id" BIGINT
);

-- 2 stage the SELECT
INSERT INTO "etl_stage_<task_run_id>_<token>" ("customer_id")
SELECT "customer_id"
FROM (
SELECT customer_id FROM raw.gone
) AS etl_source;

-- 3 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 4 NULL merge keys (fails when > 0)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>"
WHERE "customer_id" IS NULL;

-- 5 rows to flag (counts UPDATE_COUNT)
SELECT count(*) FROM "sales"."customers" AS t
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  )
  AND t.delete_flag IS DISTINCT FROM 'Y'
  AND t.active_flag = 'Y';

-- 6 flag rows (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET
  "delete_flag" = 'Y',
  "update_date" = <now>,
  "updated_by" = '<user>',
  "pipeline_id" = 3,
  "pipeline_run_id" = <pipeline_run_id>,
  "task_run_id" = <task_run_id>
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  )
  AND t.delete_flag IS DISTINCT FROM 'Y'
  AND t.active_flag = 'Y';

-- 7 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

-- 8 drop scratch
DROP TABLE "etl_stage_<task_run_id>_<token>";

COMMIT;
