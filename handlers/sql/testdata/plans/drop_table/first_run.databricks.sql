-- DROP_TABLE main.sales.orders

-- 1 drop the table
DROP TABLE `main`.`sales`.`orders`;
