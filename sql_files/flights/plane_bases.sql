-- The history of each plane's airport in New York. Only "airport" is compared, so "since" keeps the day of the move
-- for as long as the plane stays.
SELECT
    plane,
    airport,
    $$run_date AS since
FROM work.plane_day
WHERE $$pipeline_run_id_filter
