TARGET_NOT_A_TABLE
error: CREATE_TABLE iceberg.sales.orders: the target iceberg.sales.orders is a view
hint: choose another TARGET_OBJECT
