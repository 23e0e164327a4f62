-- SETUP_TABLE warehouse.sales.customers from SOURCE_SQL

BEGIN;

-- 1 fence
-- a later attempt waits here until this transaction has ended
SELECT pg_advisory_xact_lock(<target key>);

-- 2 create the schema
CREATE SCHEMA IF NOT EXISTS "sales";

-- 3 create the table
-- empty, with the columns of SCD2_MERGE
CREATE TABLE "sales"."customers" (
  "customer_id" bigint,
  "name" character varying,
  "email" character varying,
  "updated_at" timestamp without time zone,
  "pipeline_id" bigint,
  "pipeline_run_id" bigint,
  "task_run_id" bigint,
  "hash_key" character varying(32),
  "create_date" timestamp with time zone,
  "created_by" character varying(255),
  "update_date" timestamp with time zone,
  "updated_by" character varying(255),
  "delete_flag" character varying(1),
  "active_flag" character varying(1),
  "row_id" bigint GENERATED ALWAYS AS IDENTITY
);

-- 4 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM "sales"."customers";

COMMIT;
