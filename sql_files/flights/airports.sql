-- Every airport the day's flights name. Some are missing in the list of airports: those have a code and no name yet.
SELECT
    used.airport,
    known.name,
    known.latitude,
    known.longitude,
    known.timezone
FROM (
    SELECT origin AS airport FROM landing.flights
    UNION
    SELECT destination FROM landing.flights
) AS used
LEFT JOIN landing.airports AS known ON known.airport = used.airport
