COLUMN_DUPLICATE
error: CREATE_TABLE lake.sales.orders: the SELECT returns more than one column named Order_Id
hint: give one of them another name with AS
