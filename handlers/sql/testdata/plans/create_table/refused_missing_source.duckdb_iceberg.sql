STATEMENT_FAILED
error: CREATE_TABLE lake.sales.orders: stage the SELECT failed: Catalog Error: Table with name nowhere does not exist!
hint: did you mean "orders"?
