TARGET_MISSING
error: OVERWRITE_TABLE warehouse.sales.orders: the target warehouse.sales.orders does not exist
hint: give it a SETUP_TABLE task that runs before, or create it yourself
