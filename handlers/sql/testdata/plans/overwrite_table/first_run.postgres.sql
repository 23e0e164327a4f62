-- OVERWRITE_TABLE warehouse.sales.orders from SOURCE_SQL

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 stage the SELECT
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" ON COMMIT DROP AS
SELECT *
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS etl_source;

-- 3 stage fits the plan (fails when > 0)
SELECT count(*)
FROM (VALUES ('order_id', 'bigint'), ('customer', 'character varying'), ('amount', 'numeric(12,2)')) AS planned (name, type)
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

-- 5 lock the target
-- outside writers wait until the commit
LOCK TABLE "sales"."orders" IN SHARE ROW EXCLUSIVE MODE;

-- 6 delete the old rows
-- a DELETE, so that older snapshots keep reading them
DELETE FROM "sales"."orders";

-- 7 insert the new rows
INSERT INTO "sales"."orders" (
  "order_id",
  "customer",
  "amount",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "update_date"
)
SELECT
  s."order_id",
  s."customer",
  s."amount",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  <now>
FROM "etl_stage_<task_run_id>_<token>" AS s;

-- 8 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 9 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."orders";

COMMIT;
