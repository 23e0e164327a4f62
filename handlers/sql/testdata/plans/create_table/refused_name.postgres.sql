COLUMN_NAME
error: CREATE_TABLE warehouse.sales.orders: the SELECT returns columns whose names would need quoting: "order id"
hint: give them plain names with AS: lower-case letters, digits and _
