TARGET_SHAPE
error: OVERWRITE_TABLE WAREHOUSE.SALES.ORDERS: the target WAREHOUSE.SALES.ORDERS lacks columns that OVERWRITE_TABLE maintains: update_date
hint: make it with a SETUP_TABLE task, or add the columns
