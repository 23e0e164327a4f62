-- UPGRADE_TARGETS warehouse.sales.orders

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 lock the target
-- outside writers wait until the commit
LOCK TABLE "sales"."orders" IN SHARE ROW EXCLUSIVE MODE;

-- 3 add column task_run_id
ALTER TABLE "sales"."orders" ADD COLUMN "task_run_id" bigint;

COMMIT;
