-- UPGRADE_TARGETS warehouse.sales.orders

BEGIN;

-- 1 add column task_run_id
ALTER TABLE "sales"."orders" ADD COLUMN "task_run_id" BIGINT;

COMMIT;
