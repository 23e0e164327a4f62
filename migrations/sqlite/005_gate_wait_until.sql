-- +goose Up
-- PostgreSQL's WAIT_UNTIL becomes an instant here; on SQLite instants are text, so nothing changes.
SELECT 1;
