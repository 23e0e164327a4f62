TARGET_NOT_A_TABLE
error: CREATE_TABLE warehouse.sales.orders: the target warehouse.sales.orders is a view
hint: choose another TARGET_OBJECT
