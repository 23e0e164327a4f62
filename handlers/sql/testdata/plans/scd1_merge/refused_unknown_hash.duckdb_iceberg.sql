HASH_VERSION
error: SCD1_MERGE lake.sales.customers: the hashes in lake.sales.customers are of an unknown or older version
hint: etl-craft rehash --target sales.customers
