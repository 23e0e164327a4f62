HASH_COLUMNS
error: SCD1_MERGE warehouse.sales.customers: the hashes in warehouse.sales.customers were made of name|email, MERGE_COMPARE_COLUMNS is email|name
hint: etl-craft rehash --target sales.customers
