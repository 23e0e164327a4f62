TARGET_SHAPE
error: OVERWRITE_TABLE lake.sales.orders: the target lake.sales.orders has columns that the SELECT does not return: customer, amount
hint: columns are never dropped: return them from the SELECT, as NULL if need be
