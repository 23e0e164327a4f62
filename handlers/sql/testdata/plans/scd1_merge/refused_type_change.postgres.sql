TYPE_CHANGED
error: SCD1_MERGE warehouse.sales.customers: with SCHEMA_EVOLUTION the types must agree: column customer_id of warehouse.sales.customers is bigint, the SELECT returns integer
hint: cast it to bigint in the SELECT, or migrate the column yourself
