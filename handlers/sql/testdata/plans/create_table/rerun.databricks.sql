-- CREATE_TABLE main.sales.orders from SOURCE_SQL

-- 1 make the table from the SELECT
-- readers see the old table or the new one
CREATE OR REPLACE TABLE `main`.`sales`.`orders`
USING delta
COMMENT 'it\'s the orders' AS
SELECT
  s.`order_id` AS `order_id`,
  s.`customer` AS `customer`,
  s.`amount` AS `amount`,
  CAST(3 AS bigint) AS `pipeline_id`,
  CAST(<pipeline_run_id> AS bigint) AS `pipeline_run_id`,
  CAST(<task_run_id> AS bigint) AS `task_run_id`,
  CAST((SELECT coalesce(max(row_id), 0) FROM `main`.`sales`.`orders`) + row_number() OVER (ORDER BY NULL) AS bigint) AS `row_id`
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS s;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 3 new rows (counts INSERT_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 4 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;
