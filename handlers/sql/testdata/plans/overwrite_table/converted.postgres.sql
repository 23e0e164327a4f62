-- OVERWRITE_TABLE warehouse.sales.orders from SOURCE_SQL

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 create the stage
-- with the types that the target stores
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" (
  "order_id" bigint,
  "customer" character varying,
  "amount" numeric(14,2)
) ON COMMIT DROP;

-- 3 stage the SELECT
INSERT INTO "etl_stage_<task_run_id>_<token>" ("order_id", "customer", "amount")
SELECT "order_id", "customer", "amount"
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS etl_source;

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
