-- The flights planned for the run's date, from the file. Times are New York's.
SELECT
    make_date(year, month, day)                    AS flight_date,
    carrier,
    CAST(flight AS INTEGER)                        AS flight,
    origin,
    dest                                           AS destination,
    make_timestamp(year, month, day, hour, minute, 0) AS planned_departure,
    tailnum                                        AS plane,
    CAST(dep_delay AS INTEGER)                     AS departure_delay,  -- minutes; NULL when cancelled
    CAST(arr_delay AS INTEGER)                     AS arrival_delay,    -- minutes
    CAST(air_time AS INTEGER)                      AS air_time,         -- minutes
    CAST(distance AS INTEGER)                      AS distance          -- miles
FROM read_csv('data/flights.csv.gz')
WHERE make_date(year, month, day) = $$run_date
