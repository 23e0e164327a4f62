STATEMENT_FAILED
error: CREATE_TABLE warehouse.sales.orders: stage the SELECT failed: UndefinedTable: relation "raw.nowhere" does not exist
hint: 
