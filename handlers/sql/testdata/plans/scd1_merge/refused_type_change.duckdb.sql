TYPE_CHANGED
error: SCD1_MERGE warehouse.sales.customers: with SCHEMA_EVOLUTION the types must agree: column customer_id of warehouse.sales.customers is BIGINT, the SELECT returns INTEGER
hint: cast it to BIGINT in the SELECT, or migrate the column yourself
