TARGET_SHAPE
error: OVERWRITE_TABLE warehouse.sales.orders: the target warehouse.sales.orders has columns that the SELECT does not return: customer, amount
hint: columns are never dropped: return them from the SELECT, as NULL if need be
