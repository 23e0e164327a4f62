TARGET_NOT_A_TABLE
error: CREATE_TABLE main.sales.orders: the target main.sales.orders is a view
hint: choose another TARGET_OBJECT
