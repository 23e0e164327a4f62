NEW_COLUMNS
error: OVERWRITE_TABLE warehouse.sales.orders: the SELECT returns columns that the target warehouse.sales.orders lacks: note
hint: set SCHEMA_EVOLUTION to true to add them, or leave them out of the SELECT
