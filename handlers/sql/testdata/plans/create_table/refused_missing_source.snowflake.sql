STATEMENT_FAILED
error: CREATE_TABLE WAREHOUSE.SALES.ORDERS: stage the SELECT failed: 002003 (42S02): Catalog Error: Table with name NOWHERE does not exist!
hint: 
