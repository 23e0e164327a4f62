COLUMN_NAME
error: CREATE_TABLE lake.sales.orders: the SELECT returns columns whose names would need quoting: "order id"
hint: give them plain names with AS: letters, digits and _
