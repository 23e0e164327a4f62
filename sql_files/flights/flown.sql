-- What APPEND_TABLE adds to core.flights: the day's flights that took off.
SELECT
    flight_date,
    carrier,
    flight,
    origin,
    destination,
    plane,
    planned_departure,
    departure_delay,
    arrival_delay,
    air_time,
    distance
FROM landing.flights
WHERE flight_date = $$run_date
  AND departure_delay IS NOT NULL
