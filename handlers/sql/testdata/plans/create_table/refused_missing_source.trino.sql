STATEMENT_FAILED
error: CREATE_TABLE iceberg.sales.orders: stage the SELECT failed: TABLE_NOT_FOUND: line 2:15: Table 'iceberg.raw.nowhere' does not exist
hint: 
