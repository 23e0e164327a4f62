-- SCD1_MERGE warehouse.sales.customers from SOURCE_SQL

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 stage the SELECT
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" ON COMMIT DROP AS
SELECT *
FROM (
SELECT customer_id, name, email, updated_at, CAST(1.5 AS DECIMAL(8,3)) AS score FROM raw.customers
) AS etl_source;

-- 3 stage fits the plan (fails when > 0)
SELECT count(*)
FROM (VALUES ('customer_id', 'bigint'), ('name', 'character varying'), ('email', 'character varying'), ('updated_at', 'timestamp without time zone'), ('score', 'numeric(8,3)')) AS planned (name, type)
FULL JOIN (
  SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type
  FROM pg_class AS c
  JOIN pg_attribute AS a
    ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE c.relnamespace = pg_my_temp_schema() AND c.relname = 'etl_stage_<task_run_id>_<token>'
) AS staged
  ON staged.name = planned.name
WHERE planned.type IS DISTINCT FROM staged.type;

-- 4 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 5 NULL merge keys (fails when > 0)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>"
WHERE "customer_id" IS NULL;

-- 6 repeated merge keys (fails when > 0)
SELECT count(*)
FROM (
  SELECT "customer_id"
  FROM "etl_stage_<task_run_id>_<token>"
  GROUP BY "customer_id"
  HAVING count(*) > 1
) AS repeated;

-- 7 index the stage
CREATE INDEX ON "etl_stage_<task_run_id>_<token>" ("customer_id");

-- 8 analyze the stage
ANALYZE "etl_stage_<task_run_id>_<token>";

-- 9 lock the target
-- outside writers wait until the commit
LOCK TABLE "sales"."customers" IN SHARE ROW EXCLUSIVE MODE;

-- 10 add column score
ALTER TABLE "sales"."customers" ADD COLUMN "score" numeric(8,3);

-- 11 classify
-- one row for each new or changed key
CREATE TEMP TABLE "etl_change_<task_run_id>_<token>" ON COMMIT DROP AS
SELECT
  s."customer_id",
  s.etl_hash,
  count(t."customer_id") AS etl_matched
FROM (
  SELECT "customer_id", md5(convert_to(coalesce('V' || char_length("name"::text) || ':' || "name"::text, 'N') || coalesce('V' || char_length("email"::text) || ':' || "email"::text, 'N'), 'UTF8')) AS etl_hash
  FROM "etl_stage_<task_run_id>_<token>"
) AS s
LEFT JOIN "sales"."customers" AS t
  ON t."customer_id" = s."customer_id"
GROUP BY s."customer_id", s.etl_hash
HAVING count(t."customer_id") = 0
  OR bool_or(t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y');

-- 12 changed rows (counts UPDATE_COUNT)
SELECT coalesce(sum(etl_matched), 0) FROM "etl_change_<task_run_id>_<token>";

-- 13 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "etl_change_<task_run_id>_<token>"
WHERE etl_matched = 0;

-- 14 update changed rows (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET
  "name" = s."name",
  "email" = s."email",
  "updated_at" = s."updated_at",
  "score" = s."score",
  "hash_key" = c.etl_hash,
  "delete_flag" = 'N',
  "update_date" = <now>,
  "updated_by" = 'etl',
  "pipeline_id" = 3,
  "pipeline_run_id" = <pipeline_run_id>,
  "task_run_id" = <task_run_id>
FROM "etl_change_<task_run_id>_<token>" AS c
JOIN "etl_stage_<task_run_id>_<token>" AS s
  ON s."customer_id" = c."customer_id"
WHERE t."customer_id" = c."customer_id"
  AND c.etl_matched > 0;

-- 15 insert new rows (only if INSERT_COUNT > 0)
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
  "delete_flag"
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
  'etl',
  <now>,
  'etl',
  'N'
FROM "etl_change_<task_run_id>_<token>" AS c
JOIN "etl_stage_<task_run_id>_<token>" AS s
  ON s."customer_id" = c."customer_id"
WHERE c.etl_matched = 0;

-- 16 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

COMMIT;
