TARGET_SHAPE
error: DELETE_ROWS lake.sales.customers: the target lake.sales.customers lacks columns that DELETE_ROWS maintains: update_date, updated_by, delete_flag
hint: make it with a SETUP_TABLE task, or add the columns
