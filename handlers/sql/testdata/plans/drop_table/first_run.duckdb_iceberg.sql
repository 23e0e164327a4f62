-- DROP_TABLE lake.sales.orders

BEGIN;

-- 1 drop the table
DROP TABLE "sales"."orders";

COMMIT;
