-- OVERWRITE_TABLE lake.sales.orders from SOURCE_SQL

BEGIN;

-- 1 stage the SELECT
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT *
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS etl_source;

-- 2 stage fits the plan (fails when > 0)
SELECT count(*)
FROM (VALUES ('order_id', 'BIGINT'), ('customer', 'VARCHAR'), ('amount', 'DECIMAL(12,2)')) AS planned (name, type)
FULL JOIN pragma_table_info('etl_stage_<task_run_id>_<token>') AS staged
  ON staged.name = planned.name
WHERE planned.type IS DISTINCT FROM staged.type;

-- 3 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 4 remember the highest ROW_ID
-- ids of replaced rows are never used again
CREATE TEMP TABLE "etl_change_<task_run_id>_<token>" AS
SELECT max(row_id) AS row_id
FROM "sales"."orders";

-- 5 delete the old rows
-- a DELETE, so that older snapshots keep reading them
DELETE FROM "sales"."orders";

-- 6 insert the new rows
INSERT INTO "sales"."orders" (
  "order_id",
  "customer",
  "amount",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "update_date",
  "row_id"
)
SELECT
  s."order_id",
  s."customer",
  s."amount",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  <now>,
  (SELECT coalesce(max(row_id), 0) FROM "etl_change_<task_run_id>_<token>") + row_number() OVER ()
FROM "etl_stage_<task_run_id>_<token>" AS s;

-- 7 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 8 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."orders";

-- 9 drop scratch
DROP TABLE "etl_change_<task_run_id>_<token>";

-- 10 drop scratch
DROP TABLE "etl_stage_<task_run_id>_<token>";

COMMIT;
