-- SETUP_TABLE iceberg.sales.customers from SOURCE_SQL

-- 1 create the schema
CREATE SCHEMA IF NOT EXISTS "iceberg"."sales";

-- 2 create the table
-- empty, with the columns of SCD2_MERGE
CREATE TABLE "iceberg"."sales"."customers" (
  "customer_id" bigint,
  "name" varchar,
  "email" varchar,
  "updated_at" timestamp(6),
  "pipeline_id" bigint,
  "pipeline_run_id" bigint,
  "task_run_id" bigint,
  "hash_key" varchar,
  "create_date" timestamp(6) with time zone,
  "created_by" varchar,
  "update_date" timestamp(6) with time zone,
  "updated_by" varchar,
  "delete_flag" varchar,
  "active_flag" varchar,
  "row_id" bigint
);

-- 3 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "iceberg"."sales"."customers";
