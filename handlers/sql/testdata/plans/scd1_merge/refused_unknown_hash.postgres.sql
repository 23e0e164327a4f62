HASH_VERSION
error: SCD1_MERGE warehouse.sales.customers: the hashes in warehouse.sales.customers are of an unknown or older version
hint: etl-craft rehash --target sales.customers
