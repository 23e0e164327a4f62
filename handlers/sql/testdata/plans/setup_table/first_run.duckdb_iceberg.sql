-- SETUP_TABLE lake.sales.customers from SOURCE_SQL

-- 1 create the schema
-- alone, as the transaction needs it
CREATE SCHEMA IF NOT EXISTS "sales";

BEGIN;

-- 2 create the table
-- empty, with the columns of SCD2_MERGE
CREATE TABLE "sales"."customers" (
  "customer_id" BIGINT,
  "name" VARCHAR,
  "email" VARCHAR,
  "updated_at" TIMESTAMP,
  "pipeline_id" BIGINT,
  "pipeline_run_id" BIGINT,
  "task_run_id" BIGINT,
  "hash_key" VARCHAR,
  "create_date" TIMESTAMPTZ,
  "created_by" VARCHAR,
  "update_date" TIMESTAMPTZ,
  "updated_by" VARCHAR,
  "delete_flag" VARCHAR,
  "active_flag" VARCHAR,
  "row_id" BIGINT
);

-- 3 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

COMMIT;
