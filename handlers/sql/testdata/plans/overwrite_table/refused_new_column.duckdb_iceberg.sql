NEW_COLUMNS
error: OVERWRITE_TABLE lake.sales.orders: the SELECT returns columns that the target lake.sales.orders lacks: note
hint: set SCHEMA_EVOLUTION to true to add them, or leave them out of the SELECT
