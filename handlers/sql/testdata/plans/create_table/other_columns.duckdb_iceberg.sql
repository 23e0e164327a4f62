-- CREATE_TABLE lake.sales.orders from SOURCE_SQL

BEGIN;

-- 1 stage the SELECT
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT *
FROM (
SELECT order_id, amount, customer FROM raw.orders
) AS etl_source;

-- 2 stage fits the plan (fails when > 0)
SELECT count(*)
FROM (VALUES ('order_id', 'BIGINT'), ('amount', 'DECIMAL(12,2)'), ('customer', 'VARCHAR')) AS planned (name, type)
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

-- 5 add a placeholder
-- no schema of the table is empty, or one that it had before
ALTER TABLE "sales"."orders" ADD COLUMN "etl_placeholder" BIGINT;

-- 6 drop column customer
ALTER TABLE "sales"."orders" DROP COLUMN "customer";

-- 7 drop column amount
ALTER TABLE "sales"."orders" DROP COLUMN "amount";

-- 8 drop column pipeline_id
ALTER TABLE "sales"."orders" DROP COLUMN "pipeline_id";

-- 9 drop column pipeline_run_id
ALTER TABLE "sales"."orders" DROP COLUMN "pipeline_run_id";

-- 10 drop column task_run_id
ALTER TABLE "sales"."orders" DROP COLUMN "task_run_id";

-- 11 drop column row_id
ALTER TABLE "sales"."orders" DROP COLUMN "row_id";

-- 12 add column amount
ALTER TABLE "sales"."orders" ADD COLUMN "amount" DECIMAL(12,2);

-- 13 add column customer
ALTER TABLE "sales"."orders" ADD COLUMN "customer" VARCHAR;

-- 14 add column pipeline_id
ALTER TABLE "sales"."orders" ADD COLUMN "pipeline_id" BIGINT;

-- 15 add column pipeline_run_id
ALTER TABLE "sales"."orders" ADD COLUMN "pipeline_run_id" BIGINT;

-- 16 add column task_run_id
ALTER TABLE "sales"."orders" ADD COLUMN "task_run_id" BIGINT;

-- 17 add column row_id
ALTER TABLE "sales"."orders" ADD COLUMN "row_id" BIGINT;

-- 18 drop the placeholder
ALTER TABLE "sales"."orders" DROP COLUMN "etl_placeholder";

-- 19 delete the old rows
-- a DELETE, so that older snapshots keep reading them
DELETE FROM "sales"."orders";

-- 20 insert the new rows
INSERT INTO "sales"."orders" (
  "order_id",
  "amount",
  "customer",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id",
  "row_id"
)
SELECT
  s."order_id",
  s."amount",
  s."customer",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  (SELECT coalesce(max(row_id), 0) FROM "etl_change_<task_run_id>_<token>") + row_number() OVER ()
FROM "etl_stage_<task_run_id>_<token>" AS s;

-- 21 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 22 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."orders";

-- 23 drop scratch
DROP TABLE "etl_change_<task_run_id>_<token>";

-- 24 drop scratch
DROP TABLE "etl_stage_<task_run_id>_<token>";

COMMIT;
