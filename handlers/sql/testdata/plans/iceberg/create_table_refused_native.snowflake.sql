TARGET_FORMAT
error: CREATE_TABLE WAREHOUSE.SALES.ORDERS: the target WAREHOUSE.SALES.ORDERS has format native, the task asks for iceberg
hint: set TABLE_FORMAT to native, or choose another target
