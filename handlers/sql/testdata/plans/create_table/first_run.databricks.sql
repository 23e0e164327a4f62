-- CREATE_TABLE main.sales.orders from SOURCE_SQL

-- 1 create the schema
CREATE SCHEMA IF NOT EXISTS `main`.`sales`;

-- 2 make the table from the SELECT
-- readers see the old table or the new one
CREATE TABLE `main`.`sales`.`orders`
USING delta AS
SELECT
  s.`order_id` AS `order_id`,
  s.`customer` AS `customer`,
  s.`amount` AS `amount`,
  CAST(3 AS bigint) AS `pipeline_id`,
  CAST(<pipeline_run_id> AS bigint) AS `pipeline_run_id`,
  CAST(<task_run_id> AS bigint) AS `task_run_id`,
  CAST(row_number() OVER (ORDER BY NULL) AS bigint) AS `row_id`
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS s;

-- 3 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 4 new rows (counts INSERT_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 5 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;
