TARGET_SHAPE
error: DELETE_ROWS WAREHOUSE.SALES.CUSTOMERS: the target WAREHOUSE.SALES.CUSTOMERS lacks columns that DELETE_ROWS maintains: update_date, updated_by, delete_flag
hint: make it with a SETUP_TABLE task, or add the columns
