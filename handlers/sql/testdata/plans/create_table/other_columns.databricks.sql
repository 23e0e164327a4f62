-- CREATE_TABLE main.sales.orders from SOURCE_SQL

-- 1 make the table from the SELECT
-- readers see the old table or the new one
CREATE OR REPLACE TABLE `main`.`sales`.`orders`
USING delta AS
SELECT
  s.`order_id` AS `order_id`,
  s.`amount` AS `amount`,
  s.`customer` AS `customer`,
  CAST(3 AS bigint) AS `pipeline_id`,
  CAST(<pipeline_run_id> AS bigint) AS `pipeline_run_id`,
  CAST(<task_run_id> AS bigint) AS `task_run_id`,
  CAST((SELECT coalesce(max(row_id), 0) FROM `main`.`sales`.`orders`) + row_number() OVER (ORDER BY NULL) AS bigint) AS `row_id`
FROM (
SELECT order_id, amount, customer FROM raw.orders
) AS s;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 3 new rows (counts INSERT_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 4 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;
