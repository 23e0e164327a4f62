-- DROP_TABLE iceberg.sales.orders

-- 1 drop the table
DROP TABLE "iceberg"."sales"."orders";
