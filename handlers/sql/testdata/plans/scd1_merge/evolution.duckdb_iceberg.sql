-- SCD1_MERGE lake.sales.customers from SOURCE_SQL

BEGIN;

-- 1 stage the SELECT
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT *
FROM (
SELECT customer_id, name, email, updated_at, CAST(1.5 AS DECIMAL(8,3)) AS score FROM raw.customers
) AS etl_source;

-- 2 stage fits the plan (fails when > 0)
SELECT count(*)
FROM (VALUES ('customer_id', 'BIGINT'), ('name', 'VARCHAR'), ('email', 'VARCHAR'), ('updated_at', 'TIMESTAMP'), ('score', 'DECIMAL(8,3)')) AS planned (name, type)
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

-- 6 add column score
ALTER TABLE "sales"."customers" ADD COLUMN "score" DECIMAL(8,3);

-- 7 classify
-- one row for each new or changed key
CREATE TEMP TABLE "etl_change_<task_run_id>_<token>" AS
SELECT
  s."customer_id",
  s.etl_hash,
  count(t."customer_id") AS etl_matched
FROM (
  SELECT "customer_id", md5(concat(CASE WHEN "name" IS NULL THEN 'N' ELSE concat('V', length("name"::VARCHAR), ':', "name"::VARCHAR COLLATE C) END, CASE WHEN "email" IS NULL THEN 'N' ELSE concat('V', length("email"::VARCHAR), ':', "email"::VARCHAR COLLATE C) END)) AS etl_hash
  FROM "etl_stage_<task_run_id>_<token>"
) AS s
LEFT JOIN "sales"."customers" AS t
  ON t."customer_id" = s."customer_id"
GROUP BY s."customer_id", s.etl_hash
HAVING count(t."customer_id") = 0
  OR bool_or(t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y');

-- 8 changed rows (counts UPDATE_COUNT)
SELECT coalesce(sum(etl_matched), 0) FROM "etl_change_<task_run_id>_<token>";

-- 9 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "etl_change_<task_run_id>_<token>"
WHERE etl_matched = 0;

-- 10 update changed rows (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET
  "name" = s."name",
  "email" = s."email",
  "updated_at" = s."updated_at",
  "score" = s."score",
  "hash_key" = c.etl_hash,
  "delete_flag" = 'N',
  "update_date" = <now>,
  "updated_by" = '<user>',
  "pipeline_id" = 3,
  "pipeline_run_id" = <pipeline_run_id>,
  "task_run_id" = <task_run_id>
FROM "etl_change_<task_run_id>_<token>" AS c
JOIN "etl_stage_<task_run_id>_<token>" AS s
  ON s."customer_id" = c."customer_id"
WHERE t."customer_id" = c."customer_id"
  AND c.etl_matched > 0;

-- 11 insert new rows (only if INSERT_COUNT > 0)
INSERT INTO "sales"."customers" (
  "customer_id",
  "name",
  "email",
  "updated_at",
  "score",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "hash_key",
  "create_date",
  "created_by",
  "update_date",
  "updated_by",
  "delete_flag",
  "row_id"
)
SELECT
  s."customer_id",
  s."name",
  s."email",
  s."updated_at",
  s."score",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  c.etl_hash,
  <now>,
  '<user>',
  <now>,
  '<user>',
  'N',
  (SELECT coalesce(max(row_id), 0) FROM "sales"."customers") + row_number() OVER ()
FROM "etl_change_<task_run_id>_<token>" AS c
JOIN "etl_stage_<task_run_id>_<token>" AS s
  ON s."customer_id" = c."customer_id"
WHERE c.etl_matched = 0;

-- 12 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

-- 13 drop scratch
DROP TABLE "etl_change_<task_run_id>_<token>";

-- 14 drop scratch
DROP TABLE "etl_stage_<task_run_id>_<token>";

COMMIT;
