NEW_COLUMNS
error: OVERWRITE_TABLE WAREHOUSE.SALES.ORDERS: the SELECT returns columns that the target WAREHOUSE.SALES.ORDERS lacks: NOTE
hint: set SCHEMA_EVOLUTION to true to add them, or leave them out of the SELECT
