-- DELETE_ROWS warehouse.sales.customers from SOURCE_SQL

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 create the stage
-- with the types that the target stores
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" (
  "customer_id" bigint
) ON COMMIT DROP;

-- 3 stage the SELECT
INSERT INTO "etl_stage_<task_run_id>_<token>" ("customer_id")
SELECT "customer_id"
FROM (
SELECT customer_id FROM raw.gone
) AS etl_source;

-- 4 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 5 NULL merge keys (fails when > 0)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>"
WHERE "customer_id" IS NULL;

-- 6 index the stage
CREATE INDEX ON "etl_stage_<task_run_id>_<token>" ("customer_id");

-- 7 analyze the stage
ANALYZE "etl_stage_<task_run_id>_<token>";

-- 8 lock the target
-- outside writers wait until the commit
LOCK TABLE "sales"."customers" IN SHARE ROW EXCLUSIVE MODE;

-- 9 rows to flag (counts UPDATE_COUNT)
SELECT count(*) FROM "sales"."customers" AS t
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  )
  AND t.delete_flag IS DISTINCT FROM 'Y'
  AND t.active_flag = 'Y';

-- 10 flag rows (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET
  "delete_flag" = 'Y',
  "update_date" = <now>,
  "updated_by" = 'etl',
  "pipeline_id" = 3,
  "pipeline_run_id" = <pipeline_run_id>,
  "task_run_id" = <task_run_id>
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  )
  AND t.delete_flag IS DISTINCT FROM 'Y'
  AND t.active_flag = 'Y';

-- 11 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

COMMIT;
