COLUMN_RESERVED
error: CREATE_TABLE sales.orders: the SELECT returns task_run_id, which the engine writes itself
hint: list the columns you need, or give them other names with AS
