-- CREATE_TABLE warehouse.sales.orders from SOURCE_SQL

-- incomplete: Catalog Error: Table with name nowhere does not exist!
