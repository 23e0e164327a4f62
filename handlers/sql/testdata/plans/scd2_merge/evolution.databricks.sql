-- SCD2_MERGE main.sales.customers from SOURCE_SQL

-- 1 stage the SELECT
-- with the types that the target stores
CREATE TABLE `main`.`sales`.`etl_stage_<task_run_id>_<token>` AS
SELECT
  CAST(`customer_id` AS bigint) AS `customer_id`,
  CAST(`name` AS string) AS `name`,
  CAST(`email` AS string) AS `email`,
  CAST(`updated_at` AS timestamp) AS `updated_at`,
  CAST(`score` AS decimal(8,3)) AS `score`
FROM (
SELECT customer_id, name, email, updated_at, CAST(1.5 AS DECIMAL(8,3)) AS score FROM raw.customers
) AS etl_source;

-- 2 rows of the SELECT (counts SOURCE_COUNT)
SELECT count(*) FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`;

-- 3 NULL merge keys (fails when > 0)
SELECT count(*) FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`
WHERE `customer_id` IS NULL;

-- 4 repeated merge keys (fails when > 0)
SELECT count(*)
FROM (
  SELECT `customer_id`
  FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`
  GROUP BY `customer_id`
  HAVING count(*) > 1
) AS repeated;

-- 5 add column score
ALTER TABLE `main`.`sales`.`customers` ADD COLUMN `score` decimal(8,3);

-- 6 classify
-- one row for each new or changed key
CREATE TABLE `main`.`sales`.`etl_change_<task_run_id>_<token>` AS
SELECT
  s.`customer_id`,
  s.etl_hash,
  count(t.`customer_id`) AS etl_matched,
  count(t.`customer_id`) FILTER (WHERE t.hash_key = s.etl_hash AND t.delete_flag IS DISTINCT FROM 'Y') AS etl_equal,
  (SELECT concat(count(*), ':', coalesce(bit_xor(DISTINCT xxhash64(etl_version._metadata.file_path)), 0)) FROM `main`.`sales`.`customers` AS etl_version) AS etl_version
FROM (
  SELECT `customer_id`, md5(concat(coalesce(concat('V', length(`name`), ':', `name`), 'N'), coalesce(concat('V', length(`email`), ':', `email`), 'N'))) AS etl_hash
  FROM `main`.`sales`.`etl_stage_<task_run_id>_<token>`
) AS s
LEFT JOIN `main`.`sales`.`customers` AS t
  ON t.`customer_id` = s.`customer_id` AND t.active_flag = 'Y'
GROUP BY s.`customer_id`, s.etl_hash
HAVING count(t.`customer_id`) = 0
  OR bool_or(t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y');

-- 7 changed rows (counts UPDATE_COUNT)
SELECT coalesce(sum(etl_matched - etl_equal), 0) FROM `main`.`sales`.`etl_change_<task_run_id>_<token>`;

-- 8 new versions (counts INSERT_COUNT)
SELECT count(*) FROM `main`.`sales`.`etl_change_<task_run_id>_<token>`
WHERE etl_equal = 0;

-- 9 close changed versions and open new ones (only if UPDATE_COUNT + INSERT_COUNT > 0)
-- nothing when the target is no longer as it was classified
MERGE INTO `main`.`sales`.`customers` AS t
USING (
  SELECT
    o.etl_op,
    s.`customer_id`, s.`name`, s.`email`, s.`updated_at`, s.`score`,
    c.etl_hash
  FROM `main`.`sales`.`etl_change_<task_run_id>_<token>` AS c
  JOIN `main`.`sales`.`etl_stage_<task_run_id>_<token>` AS s
    ON s.`customer_id` = c.`customer_id`
  CROSS JOIN (SELECT 'close' AS etl_op UNION ALL SELECT 'open') AS o
  WHERE c.etl_version IS NOT DISTINCT FROM (SELECT concat(count(*), ':', coalesce(bit_xor(DISTINCT xxhash64(etl_version._metadata.file_path)), 0)) FROM `main`.`sales`.`customers` AS etl_version)
    AND (o.etl_op = 'close' AND c.etl_matched > c.etl_equal OR o.etl_op = 'open' AND c.etl_equal = 0)
) AS s
ON t.`customer_id` = s.`customer_id`
  AND s.etl_op = 'close'
  AND t.active_flag = 'Y'
  AND (t.hash_key IS DISTINCT FROM s.etl_hash OR t.delete_flag = 'Y')
WHEN MATCHED THEN UPDATE SET
  `active_flag` = 'N',
  `update_date` = <now>,
  `updated_by` = '<user>',
  `pipeline_id` = 3,
  `pipeline_run_id` = <pipeline_run_id>,
  `task_run_id` = <task_run_id>
WHEN NOT MATCHED AND s.etl_op = 'open' THEN INSERT (
  `customer_id`,
  `name`,
  `email`,
  `updated_at`,
  `score`,
  `pipeline_id`,
  `pipeline_run_id`,
  `task_run_id`,
  `hash_key`,
  `create_date`,
  `created_by`,
  `update_date`,
  `updated_by`,
  `delete_flag`,
  `active_flag`
)
VALUES (
  s.`customer_id`,
  s.`name`,
  s.`email`,
  s.`updated_at`,
  s.`score`,
  3,
  <pipeline_run_id>,
  <task_run_id>,
  s.etl_hash,
  <now>,
  '<user>',
  <now>,
  '<user>',
  'N',
  'Y'
);

-- 10 rows in the target (counts TARGET_COUNT)
SELECT count(*) FROM `main`.`sales`.`customers`;

-- 11 drop scratch (always)
DROP TABLE IF EXISTS `main`.`sales`.`etl_change_<task_run_id>_<token>`;

-- 12 drop scratch (always)
DROP TABLE IF EXISTS `main`.`sales`.`etl_stage_<task_run_id>_<token>`;
