-- SETUP_TABLE main.sales.customers from SOURCE_SQL
-- note: the target exists and is left as it is

-- 1 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`customers`;
