HASH_VERSION
error: SCD1_MERGE WAREHOUSE.SALES.CUSTOMERS: the hashes in WAREHOUSE.SALES.CUSTOMERS are of an unknown or older version
hint: etl-craft rehash --target SALES.CUSTOMERS
