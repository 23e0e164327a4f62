#!/usr/bin/env bash
# Checks and tests the whole repository: gofmt, go vet, staticcheck, govulncheck, then go test -race against the
# PostgreSQL servers and poolers it starts and, however it ends, stops. `make test` calls it.
#
#   scripts/test.sh [PACKAGES]     default ./...
#
# ETL_CRAFT_TEST_POSTGRES    servers of your own, as comma-separated URLs: none are started then
# ETL_CRAFT_TEST_PGBOUNCER   poolers of your own, one for each server and in their order: none are started then. They have
#                            to be set up as internal/testservers/pgbouncer.sh says
# ETL_CRAFT_TEST_DUCKDB_EXTENSIONS   a folder with DuckDB's tpch.duckdb_extension and tpcds.duckdb_extension: none are
#                            fetched then
# CI=true                    PostgreSQL servers that cannot be started and extensions that cannot be fetched are a failure;
#                            otherwise what needs them is skipped, visibly, as are the tests with poolers where there is no
#                            PgBouncer
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
  internal/testservers/pgbouncer.sh stop "$scratch/pgbouncer"
  internal/testservers/postgres.sh stop "$scratch/postgres"
  rm -rf "$scratch"
}
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

# servers SCRIPT WHAT starts them, for the tests to find.
servers() {
  say "$2"
  local exported
  if exported=$(internal/testservers/"$1".sh start "$scratch/$1"); then
    eval "$exported"
  elif [ "${CI:-}" = true ] && [ "$1" != pgbouncer ]; then # which only Debian and Ubuntu have packages of
    echo "the $2 did not start, and CI=true: giving up" >&2
    exit 1
  else
    echo "WARNING: the tests with $2 will be SKIPPED: they did not start" >&2
  fi
}

# extensions fetches those of DuckDB that hold the queries of benchmarks.
extensions() {
  say "DuckDB's extensions tpch and tpcds"
  local exported
  if exported=$(internal/testservers/duckdb_extensions.sh); then
    eval "$exported"
  elif [ "${CI:-}" = true ]; then
    echo "DuckDB's extensions were not fetched, and CI=true: giving up" >&2
    exit 1
  else
    echo "WARNING: the tests with the queries of TPC-H and TPC-DS will be SKIPPED: they were not fetched" >&2
  fi
}

[ -n "${ETL_CRAFT_TEST_POSTGRES:-}" ] || servers postgres "PostgreSQL servers"
[ -n "${ETL_CRAFT_TEST_PGBOUNCER:-}" ] || servers pgbouncer "PgBouncer poolers"
[ -n "${ETL_CRAFT_TEST_DUCKDB_EXTENSIONS:-}" ] || extensions

check gofmt formatted
check "go vet" go vet "${packages[@]}"
check staticcheck go run "$staticcheck" "${packages[@]}"
check govulncheck vulnerabilities

say "go test"
go test -race -timeout 40m "${packages[@]}"
status=$?

if [ ${#failed[@]} -gt 0 ]; then
  say "failed before the tests: $(printf '%s, ' "${failed[@]}" | sed 's/, $//')"
  [ "$status" -ne 0 ] || status=1
fi
exit "$status"
