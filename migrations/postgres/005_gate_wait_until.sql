-- +goose Up
-- The deadline of a wait is an instant, as on SQLite, where instants are text.
ALTER TABLE AUD_GATE_WAITS ALTER COLUMN WAIT_UNTIL TYPE TIMESTAMPTZ USING CAST(WAIT_UNTIL AS TIMESTAMPTZ);
