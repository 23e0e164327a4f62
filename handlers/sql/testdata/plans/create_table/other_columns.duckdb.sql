-- CREATE_TABLE warehouse.sales.orders from SOURCE_SQL

BEGIN;

-- 1 create the new table
-- nobody sees it until it gets the target's name
CREATE TABLE "sales"."etl_new_<task_run_id>_<token>" (
  "order_id" BIGINT,
  "amount" DECIMAL(12,2),
  "customer" VARCHAR,
  "pipeline_id" BIGINT,
  "pipeline_run_id" BIGINT,
  "task_run_id" BIGINT,
  "row_id" BIGINT DEFAULT nextval('"sales"."etl_seq_orders_row_id"')
);

-- 2 stage the SELECT
INSERT INTO "sales"."etl_new_<task_run_id>_<token>" (
  "order_id",
  "amount",
  "customer",
  "pipeline_id",
  "pipeline_run_id",
  "task_run_id"
)
SELECT
  s."order_id",
  s."amount",
  s."customer",
  3,
  <pipeline_run_id>,
  <task_run_id>
FROM (
SELECT order_id, amount, customer FROM raw.orders
) AS s;

-- 3 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "sales"."etl_new_<task_run_id>_<token>";

-- 4 drop the old table
DROP TABLE "sales"."orders";

-- 5 publish under the target's name
ALTER TABLE "sales"."etl_new_<task_run_id>_<token>" RENAME TO "orders";

-- 6 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "sales"."orders";

-- 7 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."orders";

COMMIT;
