#!/usr/bin/env bash
# Starts and stops all that the tests run against, and fetches what else they use: see the other scripts of this folder.
#
#   all.sh start DIR    starts it, all at once, with its files under DIR, and prints an "export ..." line for each
#   all.sh stop DIR     stops it
#
# Both are safe to repeat. What has a variable that is set already, as ETL_CRAFT_TEST_TRINO has for trino.sh, is left out. What
# cannot be started has a line "# ... is missing: why" instead. With CI=true that is a failure, except for PgBouncer, which only
# Debian and Ubuntu have packages of.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly servers="postgres pgbouncer trino databricks iceberg snowflake"
readonly fetched="duckdb_extensions sqlglot pyiceberg"
here=$(cd "$(dirname "$0")" && pwd)

title() {
  case $1 in
    postgres) echo PostgreSQL ;;
    pgbouncer) echo PgBouncer ;;
    trino) echo Trino ;;
    databricks) echo "Spark in the place of Databricks" ;;
    iceberg) echo "the Iceberg catalog" ;;
    snowflake) echo "the emulator of Snowflake" ;;
    duckdb_extensions) echo "the queries of TPC-H and TPC-DS" ;;
    *) echo "$1" ;;
  esac
}

wanted() {
  local variable=ETL_CRAFT_TEST_${1^^}
  [ -z "${!variable:-}" ]
}

# run NAME ARGUMENT... leaves $dir/NAME.exports when it succeeds, else the reason in $dir/NAME.messages.
run() {
  rm -f "$dir/$1.exports"
  if "$here/$1.sh" "${@:2}" 2>&1 >"$dir/$1.exporting" | tee "$dir/$1.messages" >&2; then
    mv "$dir/$1.exporting" "$dir/$1.exports"
  fi
}

# The poolers need to know the servers.
databases() {
  if wanted postgres; then
    run postgres start "$dir/postgres"
    [ ! -f "$dir/postgres.exports" ] || . "$dir/postgres.exports"
  fi
  ! wanted pgbouncer || run pgbouncer start "$dir/pgbouncer"
}

start() {
  mkdir -p "$dir"
  local name failed=false
  databases &
  for name in $servers; do
    case $name in postgres | pgbouncer) continue ;; esac
    ! wanted "$name" || run "$name" start "$dir/$name" &
  done
  for name in $fetched; do
    ! wanted "$name" || run "$name" &
  done
  wait
  for name in $servers $fetched; do
    wanted "$name" || continue
    if [ -f "$dir/$name.exports" ]; then
      cat "$dir/$name.exports"
      continue
    fi
    echo "# $(title "$name") is missing: $(tail -n 1 "$dir/$name.messages")"
    [ "$name" = pgbouncer ] || failed=true
  done
  if [ "${CI:-}" = true ] && $failed; then
    exit 1
  fi
}

stop() {
  stop_databases &
  local name
  for name in $servers; do
    case $name in postgres | pgbouncer) continue ;; esac
    stop_one "$name" &
  done
  wait
}

stop_databases() {
  stop_one pgbouncer || true
  stop_one postgres
}

stop_one() { [ ! -d "$dir/$1" ] || "$here/$1.sh" stop "$dir/$1"; }

main "$@"
