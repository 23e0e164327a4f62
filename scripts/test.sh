#!/usr/bin/env bash
# Checks and tests the whole repository: gofmt, go vet, staticcheck, govulncheck, then go test -race against the servers that
# internal/testservers starts and, however it ends, stops. `make test` calls it.
#
#   scripts/test.sh [PACKAGES]     default ./...
#
# ETL_CRAFT_TEST_POSTGRES    servers of your own, as comma-separated URLs: none are started then
# ETL_CRAFT_TEST_PGBOUNCER   poolers of your own, one for each server and in their order: none are started then. They have
#                            to be set up as internal/testservers/pgbouncer.sh says
# ETL_CRAFT_TEST_TRINO, ETL_CRAFT_TEST_DATABRICKS, ETL_CRAFT_TEST_SNOWFLAKE, ETL_CRAFT_TEST_ICEBERG
#                            addresses of your own, in the form that the scripts in internal/testservers print
# ETL_CRAFT_TEST_DUCKDB_EXTENSIONS   a folder with DuckDB's tpch.duckdb_extension and tpcds.duckdb_extension
# ETL_CRAFT_TEST_SQLGLOT, ETL_CRAFT_TEST_PYICEBERG   a Python with sqlglot, one with pyiceberg
# CI=true                    what cannot be started or fetched is a failure; otherwise what needs it is skipped, visibly, as are
#                            the tests with poolers where there is no PgBouncer
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

readonly staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
readonly govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0

packages=("$@")
[ $# -gt 0 ] || packages=(./...)
failed=()
scratch=$(mktemp -d)
chmod 711 "$scratch" # the servers run as another user when root starts them

stop() {
  if kill -0 "$starting" 2>/dev/null; then
    kill -TERM -- "-$starting" # with what it fetches; it is a session of its own
    wait "$starting" 2>/dev/null
  fi
  internal/testservers/all.sh stop "$scratch/servers"
  rm -rf "$scratch"
}
# The servers start while the checks below run.
setsid internal/testservers/all.sh start "$scratch/servers" >"$scratch/exports" &
starting=$!
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { echo "== $*" >&2; }
check() {
  say "$1"
  "${@:2}" || failed+=("$1")
}

formatted() {
  local files
  files=$(gofmt -l .) || return 1
  [ -z "$files" ] && return
  echo "not formatted, run gofmt -w on:" >&2
  echo "$files" >&2
  return 1
}

# govulncheck needs the public vulnerability database. Only when that cannot be reached does the check count as done.
vulnerabilities() {
  local status=0
  go run "$govulncheck" "${packages[@]}" 2>&1 | tee "$scratch/govulncheck" || status=$?
  if [ "$status" -ne 0 ] && grep -Eq 'fetching vulnerabilities:' "$scratch/govulncheck" &&
    grep -Eq 'dial tcp|no such host|i/o timeout|connection (refused|reset)|TLS handshake|Forbidden|Bad Gateway|Proxy|proxyconnect' "$scratch/govulncheck"; then
    echo "WARNING: govulncheck was NOT done: the vulnerability database cannot be reached from here" >&2
    return 0
  fi
  return "$status"
}

# missing says what the tests will be, or were, without.
missing() { sed -n 's/^# /WARNING: tests are SKIPPED: /p' "$scratch/exports" >&2; }

check gofmt formatted
check "go vet" go vet "${packages[@]}"
check staticcheck go run "$staticcheck" "${packages[@]}"
check govulncheck vulnerabilities

say "servers"
wait "$starting"
started=$?
missing
if [ "$started" -ne 0 ]; then
  echo "not all servers started, and CI=true: giving up" >&2
  exit 1
fi
# shellcheck source=/dev/null
. "$scratch/exports"

say "go test"
go test -race -timeout 40m "${packages[@]}"
status=$?

if [ ${#failed[@]} -gt 0 ]; then
  say "failed before the tests: $(printf '%s, ' "${failed[@]}" | sed 's/, $//')"
  [ "$status" -ne 0 ] || status=1
fi
missing
exit "$status"
