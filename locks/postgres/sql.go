package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	// What this session needs whatever the role's defaults: the server notices within a minute that this host is gone,
	// and does not end the session for being idle.
	sqlPrepare = `
SELECT set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('idle_session_timeout', '0', false)`

	sqlPing    = `SELECT 1`
	sqlBackend = `SELECT pg_backend_pid()`

	// A session keeps the setting until it ends or is reset, and its locks with it. False: it has a mark already.
	sqlSign = `
SELECT CASE WHEN coalesce(current_setting('etl_craft.locker', true), '') = ''
            THEN set_config('etl_craft.locker', $1, false) IS NOT NULL
            ELSE false END`

	// The last parameter is the mark; in a session with another one they do nothing and return no row.
	sqlTryLock   = `SELECT pg_try_advisory_lock($1) WHERE current_setting('etl_craft.locker', true) = $2`
	sqlUnlock    = `SELECT pg_advisory_unlock($1) WHERE current_setting('etl_craft.locker', true) = $2`
	sqlUnlockAll = `SELECT pg_advisory_unlock_all() WHERE current_setting('etl_craft.locker', true) = $1`

	// pg_locks shows an advisory lock's bigint as its upper half in classid and its lower half in objid.
	sqlHasLock = `
SELECT EXISTS (
  SELECT FROM pg_locks p
  WHERE p.locktype = 'advisory'
    AND p.objsubid = 1
    AND p.granted
    AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND p.pid = pg_backend_pid()
    AND (p.classid::bigint << 32) | p.objid::bigint = $1
    AND current_setting('etl_craft.locker', true) = $2
)`

	sqlWriteHolder = `
INSERT INTO {schema}.AUD_LOCKS (LOCK_KEY, HOLDER, BACKEND_PID, SINCE)
VALUES ($1, $2::jsonb, pg_backend_pid(), clock_timestamp())
ON CONFLICT (LOCK_KEY) DO UPDATE
SET HOLDER = excluded.HOLDER, BACKEND_PID = excluded.BACKEND_PID, SINCE = excluded.SINCE`

	sqlClearHolder  = `DELETE FROM {schema}.AUD_LOCKS WHERE LOCK_KEY = $1`
	sqlClearHolders = `DELETE FROM {schema}.AUD_LOCKS WHERE BACKEND_PID = pg_backend_pid()`

	// A holder who died left its row; only rows whose lock the server confirms are holders. $1 is a key or NULL for all.
	sqlHolders = `
SELECT l.HOLDER, l.SINCE
FROM {schema}.AUD_LOCKS l
WHERE ($1::text IS NULL OR l.LOCK_KEY = $1)
  AND EXISTS (
    SELECT FROM pg_locks p
    WHERE p.locktype = 'advisory'
      AND p.objsubid = 1
      AND p.granted
      AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND p.pid = l.BACKEND_PID
      AND (p.classid::bigint << 32) | p.objid::bigint = ('x' || left(l.LOCK_KEY, 16))::bit(64)::bigint
  )
ORDER BY l.SINCE, l.LOCK_KEY`
)

// statements are those that name the schema of the Engine DB.
type statements struct {
	writeHolder, clearHolder, clearHolders, holders string
}

func statementsFor(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize()
	in := func(sql string) string { return strings.ReplaceAll(sql, "{schema}", quoted) }
	return statements{
		writeHolder:  in(sqlWriteHolder),
		clearHolder:  in(sqlClearHolder),
		clearHolders: in(sqlClearHolders),
		holders:      in(sqlHolders),
	}
}
