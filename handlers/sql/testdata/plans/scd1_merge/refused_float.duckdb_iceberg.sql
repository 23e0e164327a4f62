HASH_TYPE
error: SCD1_MERGE lake.sales.customers: compare column balance has type DOUBLE, which cannot be hashed
hint: write CAST(balance AS DECIMAL(p,s)) AS balance in the SELECT, and give the target's column that type
