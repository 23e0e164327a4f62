COLUMN_NAME
error: CREATE_TABLE warehouse.sales.orders: the SELECT returns a column named "order id", which would need quoting
hint: give it a plain name with AS: letters, digits and _
