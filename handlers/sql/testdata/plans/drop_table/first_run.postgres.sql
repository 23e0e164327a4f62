-- DROP_TABLE warehouse.sales.orders

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 wait for readers at most a while
SET LOCAL lock_timeout = '30s';

-- 3 drop the table
DROP TABLE "sales"."orders";

COMMIT;
