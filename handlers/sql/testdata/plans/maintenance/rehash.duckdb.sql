-- REHASH warehouse.sales.customers

BEGIN;

-- 1 dates out of range (fails when > 0)
SELECT count(*) FROM "sales"."customers"
WHERE (isfinite("updated_at") AND epoch_us("updated_at") NOT BETWEEN -62135596800000000 AND 253402300799999999);

-- 2 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

-- 3 rows with another hash (counts UPDATE_COUNT)
SELECT count(*) FROM "sales"."customers" AS t
WHERE t."hash_key" IS DISTINCT FROM md5(concat(CASE WHEN t."email" IS NULL THEN 'N' ELSE concat('V', length(t."email"::VARCHAR), ':', t."email"::VARCHAR COLLATE C) END, coalesce('V26:' || strftime(make_timestamp(epoch_us(t."updated_at")), '%Y-%m-%dT%H:%M:%S.%f'), CASE t."updated_at" WHEN 'infinity' THEN 'V8:infinity' WHEN '-infinity' THEN 'V9:-infinity' END, 'N')));

-- 4 rehash (only if UPDATE_COUNT > 0)
UPDATE "sales"."customers" AS t
SET "hash_key" = md5(concat(CASE WHEN t."email" IS NULL THEN 'N' ELSE concat('V', length(t."email"::VARCHAR), ':', t."email"::VARCHAR COLLATE C) END, coalesce('V26:' || strftime(make_timestamp(epoch_us(t."updated_at")), '%Y-%m-%dT%H:%M:%S.%f'), CASE t."updated_at" WHEN 'infinity' THEN 'V8:infinity' WHEN '-infinity' THEN 'V9:-infinity' END, 'N')))
WHERE t."hash_key" IS DISTINCT FROM md5(concat(CASE WHEN t."email" IS NULL THEN 'N' ELSE concat('V', length(t."email"::VARCHAR), ':', t."email"::VARCHAR COLLATE C) END, coalesce('V26:' || strftime(make_timestamp(epoch_us(t."updated_at")), '%Y-%m-%dT%H:%M:%S.%f'), CASE t."updated_at" WHEN 'infinity' THEN 'V8:infinity' WHEN '-infinity' THEN 'V9:-infinity' END, 'N')));

COMMIT;
