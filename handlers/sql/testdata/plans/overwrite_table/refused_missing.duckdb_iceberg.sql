TARGET_MISSING
error: OVERWRITE_TABLE lake.sales.orders: the target lake.sales.orders does not exist
hint: give it a SETUP_TABLE task that runs before, or create it yourself
