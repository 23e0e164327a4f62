TARGET_SHAPE
error: OVERWRITE_TABLE warehouse.sales.orders: the target warehouse.sales.orders lacks columns that OVERWRITE_TABLE maintains: update_date
hint: make it with a SETUP_TABLE task, or add the columns
