-- CREATE_TABLE warehouse.sales.orders from SOURCE_SQL

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 create the new table
-- nobody sees it until it gets the target's name
CREATE TABLE "sales"."etl_new_<task_run_id>_<token>" (
  "order_id" bigint,
  "amount" numeric(12,2),
  "customer" character varying,
  "pipeline_id" bigint,
  "pipeline_run_id" bigint,
  "task_run_id" bigint,
  "row_id" bigint GENERATED ALWAYS AS IDENTITY
);

-- 3 continue ROW_ID
-- ids of replaced rows are never used again
SELECT setval(pg_get_serial_sequence('"sales"."etl_new_<task_run_id>_<token>"', 'row_id'), last_value, is_called)
FROM sales.etl_new_401_9f3a_row_id_seq;

-- 4 stage the SELECT
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

-- 5 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "sales"."etl_new_<task_run_id>_<token>";

-- 6 wait for readers at most a while
SET LOCAL lock_timeout = '30s';

-- 7 drop the old table
DROP TABLE "sales"."orders";

-- 8 publish under the target's name
ALTER TABLE "sales"."etl_new_<task_run_id>_<token>" RENAME TO "orders";

-- 9 new rows (counts INSERT_COUNT)
SELECT count(*) FROM "sales"."orders";

-- 10 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."orders";

COMMIT;
