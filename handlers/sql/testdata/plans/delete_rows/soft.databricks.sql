-- DELETE_ROWS main.sales.customers from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TABLE `main`.`sales`.`etl_stage_<task_run_id>_<token>` AS
SELECT
  CAST(`customer_id` AS bigint) AS `customer_id`
FROM (
SELECT customer_id FROM raw.gone
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`;

-- 3 NULL merge keys (fails when > 0)
SELECT count(*) FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`
WHERE `customer_id` IS NULL;

-- 4 classify
-- each key once
CREATE TABLE `main`.`sales`.`etl_change_<task_run_id>_<token>` AS
SELECT DISTINCT `customer_id`, (SELECT concat(count(*), ':', coalesce(bit_xor(DISTINCT xxhash64(etl_version._metadata.file_path)), 0)) FROM `main`.`sales`.`customers` AS etl_version) AS etl_version
FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`;

-- 5 rows to flag (counts UPDATE_COUNT)
SELECT count(*) FROM `main`.`sales`.`customers` AS t
JOIN `main`.`sales`.`etl_change_<task_run_id>_<token>` AS c
  ON t.`customer_id` = c.`customer_id`
  AND t.delete_flag IS DISTINCT FROM 'Y';

-- 6 flag rows (only if UPDATE_COUNT > 0)
-- nothing when the target is no longer as it was classified
MERGE INTO `main`.`sales`.`customers` AS t
USING (
  SELECT `customer_id`
  FROM `main`.`sales`.`etl_change_<task_run_id>_<token>`
  WHERE etl_version IS NOT DISTINCT FROM (SELECT concat(count(*), ':', coalesce(bit_xor(DISTINCT xxhash64(etl_version._metadata.file_path)), 0)) FROM `main`.`sales`.`customers` AS etl_version)
) AS s
ON t.`customer_id` = s.`customer_id`
  AND t.delete_flag IS DISTINCT FROM 'Y'
WHEN MATCHED THEN UPDATE SET
  `delete_flag` = 'Y',
  `update_date` = <now>,
  `updated_by` = '<user>',
  `pipeline_id` = 3,
  `pipeline_run_id` = <pipeline_run_id>,
  `task_run_id` = <task_run_id>;

-- 7 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`customers`;

-- 8 drop scratch (always)
DROP TABLE IF EXISTS `main`.`sales`.`etl_change_<task_run_id>_<token>`;

-- 9 drop scratch (always)
DROP TABLE IF EXISTS `main`.`sales`.`etl_stage_<task_run_id>_<token>`;
