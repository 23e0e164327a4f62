HASH_TYPE
error: SCD1_MERGE warehouse.sales.customers: compare column balance has type double precision, which cannot be hashed
hint: cast it to DECIMAL(p,s) in the SELECT, and give the target that type
