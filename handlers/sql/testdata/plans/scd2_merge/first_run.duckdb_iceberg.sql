-- SCD2_MERGE lake.sales.customers from SOURCE_SQL

BEGIN;

-- 1 stage the SELECT
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT *
FROM (
SELECT customer_id, name, email, updated_at FROM raw.customers
) AS etl_source;

-- 2 stage fits the plan (fails when > 0)
SELECT count(*)
FROM (VALUES ('customer_id', 'BIGINT'), ('name', 'VARCHAR'), ('email', 'VARCHAR'), ('updated_at', 'TIMESTAMP')) AS planned (name, type)
FULL JOIN pragma_table_info('etl_stage_<task_run_id>_<token>') AS staged
  ON staged.name = planned.name
WHERE planned.type IS DISTINCT FROM staged.type;

-- 3 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 4 NULL merge keys (fails when > 0)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>"
WHERE "customer_id" IS NULL;

-- 5 repeated merge keys (fails when > 0)
SELECT count(*)
FROM (
  SELECT "customer_id"
  FROM "etl_stage_<task_run_id>_<token>"
  GROUP BY "customer_id"
  HAVING count(*) > 1
) AS repeated;

-- 6 classify
-- one row for each new or changed key
CREATE TEMP TABLE "etl_change_<task_run_id>_<token>" AS
SELECT
  s."customer_id",
  s.etl_hash,
  count(t."customer_id") AS etl_matched,
  count(t."customer_id") FILTER (WHERE t.hash_key = s.etl_hash AND t.delete_flag IS DISTINCT FROM 'Y') AS etl_equal
FROM (
  SELECT "customer_id", md5(concat(CASE WHEN "name" IS NULL THEN 'N' ELSE concat('V', length("name"::VARCHAR), ':', "name"::VARCHAR COLLATE C) END, CASE WHEN "email" IS NULL THEN 'N' ELSE concat('V', length("email"::VARCHAR), ':', "email"::VARCHAR COLLATE C) END)) AS etl_hash
  FROM "etl_stage_<task_run_id>_<token>"
) AS s
LEFT JOIN "sales"."customers" AS t
  ON t."customer_id" = s."customer_id" AND t.active_flag = 'Y'
GROUP BY s."customer_id", s.etl_hash
HAVING count(t."customer_id") = 0
  OR bool_or(t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y');

-- 7 changed rows (counts UPDATE_COUNT)
SELECT coalesce(sum(etl_matched - etl_equal), 0) FROM "etl_change_<task_run_id>_<token>";

-- 8 new versions (counts INSERT_COUNT)
SELECT count(*) FROM "etl_change_<task_run_id>_<token>"
WHERE etl_equal = 0;

-- 9 close changed versions (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET
  "active_flag" = 'N',
  "update_date" = <now>,
  "updated_by" = '<user>',
  "pipeline_id" = 3,
  "pipeline_run_id" = <pipeline_run_id>,
  "task_run_id" = <task_run_id>
FROM "etl_change_<task_run_id>_<token>" AS c
WHERE t."customer_id" = c."customer_id"
  AND t.active_flag = 'Y'
  AND (t.hash_key IS DISTINCT FROM c.etl_hash OR t.delete_flag = 'Y');

-- 10 open new versions (only if INSERT_COUNT > 0)
INSERT INTO "sales"."customers" (
  "customer_id",
  "name",
  "email",
  "updated_at",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "hash_key",
  "create_date",
  "created_by",
  "update_date",
  "updated_by",
  "delete_flag",
  "active_flag",
  "row_id"
)
SELECT
  s."customer_id",
  s."name",
  s."email",
  s."updated_at",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  c.etl_hash,
  <now>,
  '<user>',
  <now>,
  '<user>',
  'N',
  'Y',
  (SELECT coalesce(max(row_id), 0) FROM "sales"."customers") + row_number() OVER ()
FROM "etl_change_<task_run_id>_<token>" AS c
JOIN "etl_stage_<task_run_id>_<token>" AS s
  ON s."customer_id" = c."customer_id"
WHERE c.etl_equal = 0;

-- 11 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

-- 12 drop scratch
DROP TABLE "etl_change_<task_run_id>_<token>";

-- 13 drop scratch
DROP TABLE "etl_stage_<task_run_id>_<token>";

COMMIT;
