-- OVERWRITE_TABLE main.sales.orders from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TABLE `main`.`sales`.`etl_stage_<task_run_id>_<token>` AS
SELECT
  CAST(`order_id` AS bigint) AS `order_id`,
  CAST(`customer` AS string) AS `customer`,
  CAST(`amount` AS decimal(12,2)) AS `amount`
FROM (
SELECT order_id, customer, amount FROM raw.orders WHERE order_date = DATE '2026-09-01' -- the run's day
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`;

-- 3 replace the rows
-- readers see the old rows or the new ones
INSERT OVERWRITE TABLE `main`.`sales`.`orders` (
  `order_id`,
  `customer`,
  `amount`,
  `pipeline_id`,
  `pipeline_run_id`,
  `task_run_id`,
  `update_date`
)
SELECT
  s.`order_id`,
  s.`customer`,
  s.`amount`,
  3,
  <pipeline_run_id>,
  <task_run_id>,
  <now>
FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>` AS s;

-- 4 new rows (counts INSERT_COUNT)
SELECT count(*) FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`;

-- 5 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`orders`;

-- 6 drop scratch (always)
DROP TABLE IF EXISTS `main`.`sales`.`etl_stage_<task_run_id>_<token>`;
