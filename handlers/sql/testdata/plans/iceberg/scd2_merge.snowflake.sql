-- SCD2_MERGE WAREHOUSE.SALES.CUSTOMERS from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TEMP TABLE "etl_stage_<task_run_id>_<token>" AS
SELECT
  CAST("CUSTOMER_ID" AS NUMBER(38,0)) AS "CUSTOMER_ID",
  CAST("NAME" AS VARCHAR) AS "NAME",
  CAST("EMAIL" AS VARCHAR) AS "EMAIL",
  CAST("UPDATED_AT" AS TIMESTAMP_NTZ(6)) AS "UPDATED_AT"
FROM (
SELECT customer_id, name, email, updated_at FROM raw.customers
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>";

-- 3 NULL merge keys (fails when > 0)
SELECT count(*) FROM "etl_stage_<task_run_id>_<token>"
WHERE "CUSTOMER_ID" IS NULL;

-- 4 repeated merge keys (fails when > 0)
SELECT count(*)
FROM (
  SELECT "CUSTOMER_ID"
  FROM "etl_stage_<task_run_id>_<token>"
  GROUP BY "CUSTOMER_ID"
  HAVING count(*) > 1
) AS repeated;

-- 5 classify
-- one row for each new or changed key
CREATE TEMP TABLE "etl_change_<task_run_id>_<token>" AS
SELECT
  s."CUSTOMER_ID",
  s.etl_hash,
  count(t."CUSTOMER_ID") AS etl_matched,
  count_if(t.hash_key = s.etl_hash AND t.delete_flag IS DISTINCT FROM 'Y') AS etl_equal,
  SYSTEM$LAST_CHANGE_COMMIT_TIME('"WAREHOUSE"."SALES"."CUSTOMERS"') AS etl_version
FROM (
  SELECT "CUSTOMER_ID", md5(coalesce('V' || to_varchar(length("NAME")) || ':' || "NAME", 'N') || coalesce('V' || to_varchar(length("EMAIL")) || ':' || "EMAIL", 'N')) AS etl_hash
  FROM "etl_stage_<task_run_id>_<token>"
) AS s
LEFT JOIN "WAREHOUSE"."SALES"."CUSTOMERS" AS t
  ON t."CUSTOMER_ID" = s."CUSTOMER_ID" AND t.active_flag = 'Y'
GROUP BY s."CUSTOMER_ID", s.etl_hash
HAVING count(t."CUSTOMER_ID") = 0
  OR boolor_agg(t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y');

-- 6 changed rows (counts UPDATE_COUNT)
SELECT coalesce(sum(etl_matched - etl_equal), 0) FROM "etl_change_<task_run_id>_<token>";

-- 7 new versions (counts INSERT_COUNT)
SELECT count(*) FROM "etl_change_<task_run_id>_<token>"
WHERE etl_equal = 0;

-- 8 close changed versions and open new ones (only if UPDATE_COUNT + INSERT_COUNT > 0)
-- nothing when the target is no longer as it was classified
MERGE INTO "WAREHOUSE"."SALES"."CUSTOMERS" AS t
USING (
  SELECT
    o.etl_op,
    s."CUSTOMER_ID", s."NAME", s."EMAIL", s."UPDATED_AT",
    c.etl_hash,
    (SELECT coalesce(max(row_id), 0) FROM "WAREHOUSE"."SALES"."CUSTOMERS") + row_number() OVER (ORDER BY 1) AS etl_row_id
  FROM "etl_change_<task_run_id>_<token>" AS c
  JOIN "etl_stage_<task_run_id>_<token>" AS s
    ON s."CUSTOMER_ID" = c."CUSTOMER_ID"
  CROSS JOIN (SELECT 'close' AS etl_op UNION ALL SELECT 'open') AS o
  WHERE c.etl_version IS NOT DISTINCT FROM SYSTEM$LAST_CHANGE_COMMIT_TIME('"WAREHOUSE"."SALES"."CUSTOMERS"')
    AND (o.etl_op = 'close' AND c.etl_matched > c.etl_equal OR o.etl_op = 'open' AND c.etl_equal = 0)
) AS s
ON t."CUSTOMER_ID" = s."CUSTOMER_ID"
  AND s.etl_op = 'close'
  AND t.active_flag = 'Y'
  AND (t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y')
WHEN MATCHED THEN UPDATE SET
  "ACTIVE_FLAG" = 'N',
  "UPDATE_DATE" = <now>,
  "UPDATED_BY" = 'duckdb',
  "PIPELINE_ID" = 3,
  "PIPELINE_RUN_ID" = <pipeline_run_id>,
  "TASK_RUN_ID" = <task_run_id>
WHEN NOT MATCHED AND s.etl_op = 'open' THEN INSERT (
  "CUSTOMER_ID",
  "NAME",
  "EMAIL",
  "UPDATED_AT",
  "PIPELINE_ID",
  "PIPELINE_RUN_ID",
  "TASK_RUN_ID",
  "HASH_KEY",
  "CREATE_DATE",
  "CREATED_BY",
  "UPDATE_DATE",
  "UPDATED_BY",
  "DELETE_FLAG",
  "ACTIVE_FLAG",
  "ROW_ID"
)
VALUES (
  s."CUSTOMER_ID",
  s."NAME",
  s."EMAIL",
  s."UPDATED_AT",
  3,
  <pipeline_run_id>,
  <task_run_id>,
  s.etl_hash,
  <now>,
  'duckdb',
  <now>,
  'duckdb',
  'N',
  'Y',
  s.etl_row_id
);

-- 9 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "WAREHOUSE"."SALES"."CUSTOMERS";

-- 10 drop scratch (always)
DROP TABLE IF EXISTS "etl_change_<task_run_id>_<token>";

-- 11 drop scratch (always)
DROP TABLE IF EXISTS "etl_stage_<task_run_id>_<token>";
