-- Latitude and longitude become decimals: floating-point columns cannot be compared by a merge.
SELECT
    faa                       AS airport,
    name,
    CAST(lat AS DECIMAL(9,6)) AS latitude,
    CAST(lon AS DECIMAL(9,6)) AS longitude,
    tzone                     AS timezone
FROM read_csv('data/airports.csv.gz')
