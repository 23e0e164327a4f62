COLUMN_DUPLICATE
error: CREATE_TABLE WAREHOUSE.SALES.ORDERS: the SELECT returns more than one column named ORDER_ID
hint: give one of them another name with AS
