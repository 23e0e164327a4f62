HASH_COLUMNS
error: SCD1_MERGE lake.sales.customers: the hashes in lake.sales.customers were made of name|email, MERGE_COMPARE_COLUMNS is email|name
hint: etl-craft rehash --target sales.customers
