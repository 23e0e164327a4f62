-- What was planned, flown or not. The first four columns are the merge key of core.schedule.
SELECT
    flight_date,
    carrier,
    flight,
    origin,
    destination,
    planned_departure
FROM landing.flights
WHERE flight_date = $$run_date
