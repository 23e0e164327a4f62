-- REHASH WAREHOUSE.SALES.CUSTOMERS

-- 1 dates out of range (fails when > 0)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS"
WHERE (date_part(year, "UPDATED_AT") NOT BETWEEN 1 AND 9999);

-- 2 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS";

-- 3 rows with another hash (counts UPDATE_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS"
WHERE "CUSTOMERS"."HASH_KEY" IS DISTINCT FROM md5(coalesce('V' || to_varchar(length("CUSTOMERS"."EMAIL")) || ':' || "CUSTOMERS"."EMAIL", 'N') || coalesce('V26:' || left(to_varchar(CAST("CUSTOMERS"."UPDATED_AT" AS TIMESTAMP_NTZ), 'YYYY-MM-DD"T"HH24:MI:SS.FF9'), 26), 'N'));

-- 4 rehash (only if UPDATE_COUNT > 0)
UPDATE "WAREHOUSE"."SALES"."CUSTOMERS"
SET "HASH_KEY" = md5(coalesce('V' || to_varchar(length("CUSTOMERS"."EMAIL")) || ':' || "CUSTOMERS"."EMAIL", 'N') || coalesce('V26:' || left(to_varchar(CAST("CUSTOMERS"."UPDATED_AT" AS TIMESTAMP_NTZ), 'YYYY-MM-DD"T"HH24:MI:SS.FF9'), 26), 'N'))
WHERE "CUSTOMERS"."HASH_KEY" IS DISTINCT FROM md5(coalesce('V' || to_varchar(length("CUSTOMERS"."EMAIL")) || ':' || "CUSTOMERS"."EMAIL", 'N') || coalesce('V26:' || left(to_varchar(CAST("CUSTOMERS"."UPDATED_AT" AS TIMESTAMP_NTZ), 'YYYY-MM-DD"T"HH24:MI:SS.FF9'), 26), 'N'));
