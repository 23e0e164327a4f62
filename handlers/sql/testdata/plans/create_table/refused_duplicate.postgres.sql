COLUMN_DUPLICATE
error: CREATE_TABLE warehouse.sales.orders: the SELECT returns two columns named order_id
hint: give one of them another name with AS
