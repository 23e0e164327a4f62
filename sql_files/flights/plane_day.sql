-- One row per plane that flew on the run's date, for the two tasks that follow.
SELECT
    plane,
    arg_max(origin, planned_departure) AS airport,       -- the New York airport it left last
    count(*)                           AS flights,
    CAST(sum(air_time) AS BIGINT)      AS minutes_in_air
FROM landing.flights
WHERE flight_date = $$run_date
  AND departure_delay IS NOT NULL
GROUP BY plane
