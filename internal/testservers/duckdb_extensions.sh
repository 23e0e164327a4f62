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

# fetch EXTENSION puts it into $dir, from a wheel that is verified first.
fetch() {
  [ -f "$dir/$1.duckdb_extension" ] && return
  local scratch wheel
  scratch=$(mktemp -d "$dir/fetching.XXXXXX")
  has python3 || die "python3 is missing: install it with pip (Debian: apt-get install python3-pip)"
  say "fetching DuckDB's extension $1 $version"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$scratch" \
    "duckdb-extension-$1==$version" >&2 || die "pip could not fetch duckdb-extension-$1 $version; its message is above"
  wheel=$(echo "$scratch"/*.whl)
  echo "$(checksum "$1")  $wheel" | sha256sum --check --status || die "$(basename "$wheel") has not the pinned SHA-256 $(checksum "$1")"
  python3 -m zipfile -e "$wheel" "$scratch"
  mv "$scratch/duckdb_extension_$1/extensions/v$version/$1.duckdb_extension" "$dir/"
  rm -rf "$scratch"
}

[ $# -eq 0 ] || die "usage: $(basename "$0")"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "the pinned extensions are for Linux on x86-64"
need flock "it comes with util-linux"
dir=$cache/duckdb-extensions-$version
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
rm -rf "$dir"/fetching.* # of a call that failed
fetch tpch
fetch tpcds
echo "export ETL_CRAFT_TEST_DUCKDB_EXTENSIONS=$dir"
