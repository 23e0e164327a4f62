-- SETUP_TABLE main.sales.customers from SOURCE_SQL

-- 1 create the schema
CREATE SCHEMA IF NOT EXISTS `main`.`sales`;

-- 2 create the table
-- empty, with the columns of SCD2_MERGE
CREATE TABLE `main`.`sales`.`customers` (
  `customer_id` bigint,
  `name` string,
  `email` string,
  `updated_at` timestamp,
  `pipeline_id` bigint,
  `pipeline_run_id` bigint,
  `task_run_id` bigint,
  `hash_key` string,
  `create_date` timestamp,
  `created_by` string,
  `update_date` timestamp,
  `updated_by` string,
  `delete_flag` string,
  `active_flag` string,
  `row_id` bigint GENERATED ALWAYS AS IDENTITY
)
USING delta;

-- 3 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`customers`;
