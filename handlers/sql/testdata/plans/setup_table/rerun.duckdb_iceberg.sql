-- SETUP_TABLE lake.sales.customers from SOURCE_SQL
-- note: the target exists and is left as it is

BEGIN;

-- 1 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

COMMIT;
