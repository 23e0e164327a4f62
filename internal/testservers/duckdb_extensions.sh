#!/usr/bin/env bash
# Fetches DuckDB's extensions tpch and tpcds, which hold the queries and tables of the TPC-H and TPC-DS benchmarks.
#
#   duckdb_extensions.sh    prints "export ETL_CRAFT_TEST_DUCKDB_EXTENSIONS=DIR", with tpch.duckdb_extension and
#                           tpcds.duckdb_extension in DIR
#
# It is safe to repeat. Version and checksums are pinned below, and the version has to be that of the DuckDB in go.mod:
# another one does not load them. pip fetches them once into ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test. The queries
# are the benchmark authors', so they are not kept in this repository.
#
# Needs Linux on x86-64, bash, flock and, for the first call, python3 with pip.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly version=1.5.5

checksum() {
  case $1 in
    tpch) echo e734f284fd94971f1241718281111add95457b3c35ec3f19ce39770e654a21e7 ;;
    tpcds) echo fd1ad5b4b5443d0e32d1ebe9122845eb3d2b74466cee2cd56650024e9196f697 ;;
  esac
}

fill() {
  local extension
  for extension in tpch tpcds; do
    from_pypi "duckdb-extension-$extension==$version" "$(checksum "$extension")" --only-binary :all:
    python3 -m zipfile -e "$file" "$home/fetched"
    mv "$home/fetched/duckdb_extension_$extension/extensions/v$version/$extension.duckdb_extension" "$home/"
    fetched_away
  done
}

[ $# -eq 0 ] || die "usage: $(basename "$0")"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "the pinned extensions are for Linux on x86-64"
cached "duckdb-extensions-$version" fill
exported ETL_CRAFT_TEST_DUCKDB_EXTENSIONS "$home"
