#!/usr/bin/env bash
# Starts and stops an emulator of Snowflake, fakesnow, which runs on DuckDB.
#
#   snowflake.sh start DIR    prints "export ETL_CRAFT_TEST_SNOWFLAKE=...", a DSN for gosnowflake
#   snowflake.sh stop DIR     stops it, and its tables are gone
#
# Both are safe to repeat. It listens on 127.0.0.1 only, at the first free port from 18765, lets everyone in with any password
# and runs as the user who starts it. A database and a schema that a DSN names are made. It accepts a good deal that Snowflake
# refuses. snowflake/fakesnow_fixed.py repairs what a Go client trips over. pip fetches what snowflake/requirements.txt pins once
# into ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test, 360 MB.
#
# A Go test sets SNOWFLAKE_DISABLE_PLATFORM_DETECTION=true and SF_DISABLE_MINICORE=true before it opens the driver, which else
# asks the network where it runs.
#
# Needs bash, flock, setsid and python3, from 3.11, with venv.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly patience=180
server_user=$(id -un)
here=$(cd "$(dirname "$0")" && pwd)

launch() {
  rm -rf "$dir/tmp"
  mkdir -p "$dir/tmp" # stages lie there
  cp "$here/snowflake/fakesnow_fixed.py" "$dir/server.py"
  spawn fakesnow env TMPDIR="$dir/tmp" "$python" "$dir/server.py" -s --host 127.0.0.1 -p "$1"
}

start() {
  need python3 "install it with venv (Debian: apt-get install python3-venv)"
  need setsid "it comes with util-linux"
  enter
  local port python requirements
  if ! spawned fakesnow; then
    python_with fakesnow "$here/snowflake/requirements.txt"
    choose_ports_alone
    port=$(free_port 18765)
    launch "$port"
    echo "$port" >"$dir/port"
  fi
  port=$(cat "$dir/port")
  await "$patience" python3 "$here/answers.py" snowflake "$port"
  local query="account=fakesnow&protocol=http&warehouse=wh&disableOCSPChecks=true&disableTelemetry=true"
  query="$query&validateDefaultParameters=false&loginTimeout=10&maxRetryCount=1"
  exported ETL_CRAFT_TEST_SNOWFLAKE "user:pw@127.0.0.1:$port/DB1/S1?$query"
}

stop() {
  reap fakesnow 5
  rm -rf "$dir/tmp"
}

main "$@"
