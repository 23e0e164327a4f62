-- The keys that DELETE_ROWS flags in core.schedule.
SELECT flight_date, carrier, flight, origin
FROM landing.flights
WHERE flight_date = $$run_date
  AND departure_delay IS NULL
