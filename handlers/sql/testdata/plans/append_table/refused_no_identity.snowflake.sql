TARGET_SHAPE
error: APPEND_TABLE WAREHOUSE.SALES.ORDERS: the target WAREHOUSE.SALES.ORDERS lacks pipeline_id, pipeline_run_id, task_run_id
hint: etl-craft upgrade-targets --target SALES.ORDERS adds them
