HASH_COLUMNS
error: SCD1_MERGE WAREHOUSE.SALES.CUSTOMERS: the hashes in WAREHOUSE.SALES.CUSTOMERS were made of name|email, MERGE_COMPARE_COLUMNS is email|name
hint: etl-craft rehash --target SALES.CUSTOMERS
