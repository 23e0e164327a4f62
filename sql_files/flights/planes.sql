-- One row per plane, with its latest day. The pipeline_run_id filter reads only what this run wrote to the work table.
SELECT
    today.plane,
    known.manufacturer,
    known.model,
    known.built,
    known.seats,
    $$run_date           AS last_flown,
    today.flights        AS flights_that_day,
    today.minutes_in_air AS minutes_that_day
FROM (
    SELECT plane, flights, minutes_in_air
    FROM work.plane_day
    WHERE $$pipeline_run_id_filter
) AS today
LEFT JOIN landing.planes AS known ON known.plane = today.plane
