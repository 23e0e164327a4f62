STATEMENT_FAILED
error: CREATE_TABLE main.sales.orders: stage the SELECT failed: TABLE_OR_VIEW_NOT_FOUND: The table or view `raw`.`nowhere` cannot be found. Verify the spelling and correctness of the schema and catalog.
hint: 
