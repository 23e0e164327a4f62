TARGET_MISSING
error: OVERWRITE_TABLE WAREHOUSE.SALES.ORDERS: the target WAREHOUSE.SALES.ORDERS does not exist
hint: give it a SETUP_TABLE task that runs before, or create it yourself
