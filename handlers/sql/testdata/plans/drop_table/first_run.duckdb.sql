-- DROP_TABLE warehouse.sales.orders

BEGIN;

-- 1 drop the table
DROP TABLE "sales"."orders";

-- 2 drop the ROW_ID sequence
DROP SEQUENCE IF EXISTS "sales"."etl_seq_orders_row_id";

COMMIT;
