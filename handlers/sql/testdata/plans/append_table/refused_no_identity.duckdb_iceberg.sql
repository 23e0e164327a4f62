TARGET_SHAPE
error: APPEND_TABLE lake.sales.orders: the target lake.sales.orders lacks pipeline_id, pipeline_run_id, task_run_id
hint: etl-craft upgrade-targets --target sales.orders adds them
