-- CREATE_TABLE warehouse.sales.orders from SOURCE_SQL

-- incomplete: UndefinedTable: relation "raw.nowhere" does not exist
