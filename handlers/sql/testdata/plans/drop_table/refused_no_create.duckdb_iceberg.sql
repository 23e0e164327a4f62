DROP_REFUSED
error: DROP_TABLE sales.orders: DROP_TABLE needs a CREATE_TABLE task of this pipeline for sales.orders
hint: add the CREATE_TABLE task, or drop the table yourself
