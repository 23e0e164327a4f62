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

-- 5 rows to delete (counts DELETE_COUNT)
SELECT count(*) FROM "sales"."customers" AS t
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  );

-- 6 first row to delete (remembers the row, only if DELETE_COUNT > 0)
-- its absence will prove the commit
SELECT min(t.row_id) FROM "sales"."customers" AS t
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  );

-- 7 delete rows (only if DELETE_COUNT > 0)
DELETE FROM "sales"."customers" AS t
WHERE EXISTS (
    SELECT 1 FROM "etl_stage_<task_run_id>_<token>" AS s
    WHERE s."customer_id" = t."customer_id"
  );

-- 8 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

-- 9 drop scratch
DROP TABLE "etl_stage_<task_run_id>_<token>";

COMMIT;
