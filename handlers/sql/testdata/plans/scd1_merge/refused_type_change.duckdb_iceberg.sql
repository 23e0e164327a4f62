TYPE_CHANGED
error: SCD1_MERGE lake.sales.customers: with SCHEMA_EVOLUTION the types must agree: column customer_id of lake.sales.customers is BIGINT, the SELECT returns INTEGER
hint: cast it to BIGINT in the SELECT, or migrate the column yourself
