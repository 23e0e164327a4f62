-- Stands in for your source: replace it with a SELECT over your own tables, named at least schema.table.
SELECT customer_id, name, city
FROM (VALUES
    (1, 'Ada Lovelace', 'London'),
    (2, 'Grace Hopper', 'New York'),
    (3, 'Emmy Noether', 'Erlangen')
) AS source (customer_id, name, city)
