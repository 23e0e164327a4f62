SELECT
    tailnum                AS plane,
    manufacturer,
    model,
    CAST(year AS INTEGER)  AS built,
    CAST(seats AS INTEGER) AS seats
FROM read_csv('data/planes.csv.gz')
