-- REHASH warehouse.sales.customers

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 lock the target
-- outside writers wait until the commit
LOCK TABLE "sales"."customers" IN SHARE ROW EXCLUSIVE MODE;

-- 3 dates out of range (fails when > 0)
SELECT count(*) FROM "sales"."customers"
WHERE (isfinite("updated_at") AND "updated_at" NOT BETWEEN TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999');

-- 4 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

-- 5 rows with another hash (counts UPDATE_COUNT)
SELECT count(*) FROM "sales"."customers" AS t
WHERE t."hash_key" IS DISTINCT FROM md5(convert_to(coalesce('V' || char_length(t."email"::text) || ':' || t."email"::text, 'N') || CASE WHEN isfinite(t."updated_at") THEN 'V26:' || to_char(t."updated_at", 'YYYY-MM-DD"T"HH24:MI:SS.US') WHEN t."updated_at" IS NULL THEN 'N' WHEN t."updated_at" > '2000-01-01' THEN 'V8:infinity' ELSE 'V9:-infinity' END, 'UTF8'));

-- 6 rehash (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET "hash_key" = md5(convert_to(coalesce('V' || char_length(t."email"::text) || ':' || t."email"::text, 'N') || CASE WHEN isfinite(t."updated_at") THEN 'V26:' || to_char(t."updated_at", 'YYYY-MM-DD"T"HH24:MI:SS.US') WHEN t."updated_at" IS NULL THEN 'N' WHEN t."updated_at" > '2000-01-01' THEN 'V8:infinity' ELSE 'V9:-infinity' END, 'UTF8'))
WHERE t."hash_key" IS DISTINCT FROM md5(convert_to(coalesce('V' || char_length(t."email"::text) || ':' || t."email"::text, 'N') || CASE WHEN isfinite(t."updated_at") THEN 'V26:' || to_char(t."updated_at", 'YYYY-MM-DD"T"HH24:MI:SS.US') WHEN t."updated_at" IS NULL THEN 'N' WHEN t."updated_at" > '2000-01-01' THEN 'V8:infinity' ELSE 'V9:-infinity' END, 'UTF8'));

COMMIT;
