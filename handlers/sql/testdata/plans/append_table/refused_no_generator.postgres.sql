ROW_ID_NO_GENERATOR
error: APPEND_TABLE warehouse.sales.orders: ROW_ID of warehouse.sales.orders has no generator
hint: run CREATE SEQUENCE "sales"."etl_seq_orders_row_id" OWNED BY "sales"."orders".row_id; SELECT setval('sales.etl_seq_orders_row_id', coalesce(max(row_id), 0) + 1, false) FROM "sales"."orders"; ALTER TABLE "sales"."orders" ALTER row_id SET DEFAULT nextval('sales.etl_seq_orders_row_id')
