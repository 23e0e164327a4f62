-- DELETE_ROWS iceberg.sales.customers from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TABLE "iceberg"."sales"."etl_stage_<task_run_id>_<token>" AS
SELECT
  CAST("customer_id" AS bigint) AS "customer_id"
FROM (
SELECT customer_id FROM raw.gone
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>";

-- 3 NULL merge keys (fails when > 0)
SELECT count(*) FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>"
WHERE "customer_id" IS NULL;

-- 4 classify
-- each key once
CREATE TABLE "iceberg"."sales"."etl_change_<task_run_id>_<token>" AS
SELECT DISTINCT "customer_id", (SELECT snapshot_id FROM "iceberg"."sales"."customers$refs" WHERE name = 'main') AS etl_version
FROM "iceberg"."sales"."etl_stage_<task_run_id>_<token>";

-- 5 rows to delete (counts DELETE_COUNT)
SELECT count(*) FROM "iceberg"."sales"."customers" AS t
JOIN "iceberg"."sales"."etl_change_<task_run_id>_<token>" AS c
  ON t."customer_id" = c."customer_id";

-- 6 first row to delete (remembers the row, only if DELETE_COUNT > 0)
-- its absence will prove the commit
SELECT min(t.row_id) FROM "iceberg"."sales"."customers" AS t
JOIN "iceberg"."sales"."etl_change_<task_run_id>_<token>" AS c
  ON t."customer_id" = c."customer_id";

-- 7 delete rows (only if DELETE_COUNT > 0)
-- nothing when the target is no longer as it was classified
MERGE INTO "iceberg"."sales"."customers" AS t
USING (
  SELECT "customer_id"
  FROM "iceberg"."sales"."etl_change_<task_run_id>_<token>"
  WHERE etl_version IS NOT DISTINCT FROM (SELECT snapshot_id FROM "iceberg"."sales"."customers$refs" WHERE name = 'main')
) AS s
ON t."customer_id" = s."customer_id"
WHEN MATCHED THEN DELETE;

-- 8 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "iceberg"."sales"."customers";

-- 9 drop scratch (always)
DROP TABLE IF EXISTS "iceberg"."sales"."etl_change_<task_run_id>_<token>";

-- 10 drop scratch (always)
DROP TABLE IF EXISTS "iceberg"."sales"."etl_stage_<task_run_id>_<token>";
