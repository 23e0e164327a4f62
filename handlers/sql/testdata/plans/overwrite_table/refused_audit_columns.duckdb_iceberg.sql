TARGET_SHAPE
error: OVERWRITE_TABLE lake.sales.orders: the target lake.sales.orders lacks columns that OVERWRITE_TABLE maintains: update_date
hint: make it with a SETUP_TABLE task, or add the columns
