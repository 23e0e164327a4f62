SELECT
    origin                                      AS airport,
    make_timestamp(year, month, day, hour, 0, 0) AS measured_at,
    CAST(wind_speed AS DECIMAL(5,1))            AS wind_speed,      -- miles per hour
    CAST(precip AS DECIMAL(5,2))                AS precipitation    -- inches of water in that hour
FROM read_csv('data/weather.csv.gz')
