HASH_TYPE
error: SCD1_MERGE WAREHOUSE.SALES.CUSTOMERS: compare column BALANCE has type FLOAT, which cannot be hashed
hint: write CAST(BALANCE AS DECIMAL(p,s)) AS BALANCE in the SELECT, and give the target's column that type
