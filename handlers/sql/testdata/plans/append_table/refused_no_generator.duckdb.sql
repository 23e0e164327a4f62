ROW_ID_NO_GENERATOR
error: APPEND_TABLE warehouse.sales.orders: ROW_ID of warehouse.sales.orders has no generator
hint: run CREATE OR REPLACE SEQUENCE "sales"."etl_seq_orders_row_id" START 1; ALTER TABLE "sales"."orders" ALTER row_id SET DEFAULT nextval('"sales"."etl_seq_orders_row_id"')
