TARGET_SHAPE
error: OVERWRITE_TABLE WAREHOUSE.SALES.ORDERS: the target WAREHOUSE.SALES.ORDERS has columns that the SELECT does not return: CUSTOMER, AMOUNT
hint: columns are never dropped: return them from the SELECT, as NULL if need be
