package demo

// Queries are the results to show at the end of the demo, in reading order.
func Queries() []Query {
	return []Query{
		{
			Title: "Seven days in New York, with the blizzard of 8 and 9 February (mart.daily_summary)",
			SQL: `SELECT
    flight_date,
    CAST(sum(planned) AS BIGINT)         AS planned,
    CAST(sum(cancelled) AS BIGINT)       AS cancelled,
    max(strongest_wind)                  AS strongest_wind_mph,
    CAST(max(precipitation) AS DECIMAL(7,2)) AS precipitation_inches
FROM mart.daily_summary
GROUP BY flight_date
ORDER BY flight_date`,
		},
		{
			Title: "The plane that moved most: every version that SCD2_MERGE kept (core.plane_bases)",
			SQL: `SELECT plane, airport, since, active_flag
FROM core.plane_bases
WHERE plane = (
    SELECT plane FROM core.plane_bases GROUP BY plane ORDER BY count(*) DESC, plane LIMIT 1
)
ORDER BY since`,
		},
		{
			Title: "Who cancelled most: rows that DELETE_ROWS flagged (core.schedule)",
			SQL: `SELECT
    airlines.name                                      AS airline,
    count(*)                                           AS planned,
    count(*) FILTER (WHERE schedule.delete_flag = 'Y') AS cancelled
FROM core.schedule AS schedule
JOIN landing.airlines AS airlines ON airlines.carrier = schedule.carrier
GROUP BY airlines.name
ORDER BY cancelled DESC, airline
LIMIT 5`,
		},
	}
}
