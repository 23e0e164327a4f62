-- Every loaded day, by airport. DELETE_FLAG is a column of the engine: 'Y' where DELETE_ROWS flagged a row.
WITH planned AS (
    SELECT
        flight_date,
        origin                                    AS airport,
        count(*)                                  AS planned,
        count(*) FILTER (WHERE delete_flag = 'Y') AS cancelled
    FROM core.schedule
    GROUP BY flight_date, origin
),
flown AS (
    SELECT
        flight_date,
        origin                                     AS airport,
        CAST(avg(departure_delay) AS DECIMAL(7,1)) AS mean_delay
    FROM core.flights
    GROUP BY flight_date, origin
),
weather AS (
    SELECT
        CAST(measured_at AS DATE)                 AS flight_date,
        airport,
        max(wind_speed)                           AS strongest_wind,
        CAST(sum(precipitation) AS DECIMAL(7,2))  AS precipitation
    FROM landing.weather
    GROUP BY CAST(measured_at AS DATE), airport
)
SELECT
    planned.flight_date,
    planned.airport,
    planned.planned,
    planned.cancelled,
    flown.mean_delay,
    weather.strongest_wind,
    weather.precipitation
FROM planned
LEFT JOIN flown   ON flown.flight_date = planned.flight_date AND flown.airport = planned.airport
LEFT JOIN weather ON weather.flight_date = planned.flight_date AND weather.airport = planned.airport
