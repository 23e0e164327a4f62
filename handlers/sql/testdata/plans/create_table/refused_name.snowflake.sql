COLUMN_NAME
error: CREATE_TABLE WAREHOUSE.SALES.ORDERS: the SELECT returns columns whose names would need quoting: "order id"
hint: give them plain names with AS: upper-case letters, digits and _
