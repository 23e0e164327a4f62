#!/usr/bin/env bash
# Puts a transaction pooler, PgBouncer, in front of each PostgreSQL server of the tests.
#
#   pgbouncer.sh start DIR    one for each server in $ETL_CRAFT_TEST_POSTGRES, with its files under DIR; prints
#                             "export ETL_CRAFT_TEST_PGBOUNCER=...", URLs in the servers' order
#   pgbouncer.sh stop DIR     stops them all
#
# Both are safe to repeat. They listen on 127.0.0.1 only, at the first free ports from 16401, and let every local user in
# as the user of the server's URL. A pool has 4 connections; everything else is PgBouncer's default. The database that ends
# in _session is the URL's with a pool that keeps sessions. Run by root, they run as the user postgres or nobody.
#
# A pgbouncer on PATH is used. Else apt-get, on Debian or Ubuntu, fetches the package once, without installing it, into
# ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test; root is not needed. Needs bash, flock, setpriv.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly pool_size=4
readonly own="install PgBouncer, or set ETL_CRAFT_TEST_PGBOUNCER to poolers of your own"

# download PACKAGE prints the path of its file.
download() {
  local debs=("$cache/$1"_*.deb)
  if [ ! -f "${debs[0]}" ]; then
    say "fetching $1"
    mkdir -p "$cache"
    if [ -z "$(apt-cache policy "$1" | sed -n '/Candidate: [0-9]/p')" ]; then
      [ "$(id -u)" -eq 0 ] || die "apt knows no package $1: run apt-get update as root; or $own"
      apt-get -q update >&2 || die "apt-get update failed; $own"
    fi
    (cd "$cache" && apt-get -q -o APT::Sandbox::User=root download "$1" >&2) ||
      die "apt-get could not fetch $1, its message is above; $own"
    debs=("$cache/$1"_*.deb)
  fi
  echo "${debs[-1]}"
}

# unpack HOME puts pgbouncer and the libraries that this machine lacks into HOME. They lie beside the configuration and not
# in the cache, because the server's user cannot read root's home.
unpack() {
  [ -d "$1" ] && return
  need apt-get "$own"
  need dpkg "$own"
  local scratch=$1.unpacking file library
  rm -rf "$scratch"
  mkdir -p "$scratch"
  file=$(download pgbouncer)
  dpkg -x "$file" "$scratch"
  if lacks_libraries "$scratch" >/dev/null; then
    for library in $(dpkg-deb -f "$file" Depends | grep -Eo '\blib[a-z0-9.+-]+'); do
      dpkg-query -W -f '${Status}' "$library" 2>/dev/null | grep -q ' installed$' && continue
      file=$(download "$library")
      dpkg -x "$file" "$scratch"
    done
  fi
  ! lacks_libraries "$scratch" >&2 || die "pgbouncer lacks the libraries above; $own"
  mv "$scratch" "$1"
}

# lacks_libraries HOME prints those that are not found, and fails when there are none.
lacks_libraries() { LD_LIBRARY_PATH=$(libraries "$1") ldd "$1/usr/sbin/pgbouncer" | grep 'not found'; }
libraries() { find "$1" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:; }

# pgbouncer runs the program as the servers' user.
pgbouncer() {
  if has_program; then
    as_server_user "$(type -P pgbouncer)" "$@"
  else
    as_server_user env LD_LIBRARY_PATH="$(libraries "$dir/program")" "$dir/program/usr/sbin/pgbouncer" "$@"
  fi
}
has_program() { type -P pgbouncer >/dev/null; }

# running N: the process in the file is a pooler of this folder, and no other that got its number.
running() {
  local pid
  pid=$(cat "$dir/$1/pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -Fq "$dir/$1/pgbouncer.ini"
}
port_of() { sed -n 's/^listen_port = //p' "$dir/$1/pgbouncer.ini"; }

# quoted TEXT is what a piece of a URL means, as PgBouncer reads it.
quoted() {
  local text
  text=$(printf '%b' "${1//%/\\x}")
  echo "'${text//\'/\'\'}'"
}

# configure N USER PASSWORD HOST PORT DATABASE
configure() {
  mkdir -p "$dir/$1"
  chmod 700 "$dir/$1" # the file may hold a password
  [ "$(id -u)" -ne 0 ] || chown "$server_user" "$dir/$1"
  local server
  server="host=$(quoted "$4") port=$5 user=$(quoted "$2")${3:+ password=$(quoted "$3")}"
  cat >"$dir/$1/pgbouncer.ini" <<-INI
		[databases]
		* = $server
		$6_session = $server dbname=$(quoted "$6") pool_mode=session pool_size=20
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $(free_port "$((16400 + $1))")
		unix_socket_dir =
		auth_type = any
		pool_mode = transaction
		default_pool_size = $pool_size
		logfile = $dir/$1/log
		pidfile = $dir/$1/pid
	INI
}

# launch N starts it and returns when it listens.
launch() {
  pgbouncer -q -d "$dir/$1/pgbouncer.ini" 9>&- >&2 || die "PgBouncer did not start, see $dir/$1/log"
  local port tries
  port=$(port_of "$1")
  for ((tries = 0; tries < 100; tries++)); do
    if running "$1" && listening "$port"; then
      return
    fi
    sleep 0.1
  done
  die "PgBouncer does not listen at port $port, see $dir/$1/log"
}

start() {
  [ -n "${ETL_CRAFT_TEST_POSTGRES:-}" ] || die "ETL_CRAFT_TEST_POSTGRES names no server; start those first: postgres.sh start DIR"
  enter
  has_program || unpack "$dir/program"
  local url urls=() n=0 pooled=
  local shape='^postgres(ql)?://([^:@/]+)(:([^@/]*))?@([^:/?]+)(:([0-9]+))?/([^/?]+)([?].*)?$'
  IFS=, read -ra urls <<<"$ETL_CRAFT_TEST_POSTGRES"
  for url in "${urls[@]}"; do
    n=$((n + 1))
    [[ $url =~ $shape ]] || die "server $n of ETL_CRAFT_TEST_POSTGRES is no URL like postgres://user@host:port/database"
    local user=${BASH_REMATCH[2]} password=${BASH_REMATCH[4]} host=${BASH_REMATCH[5]} port=${BASH_REMATCH[7]:-5432} database=${BASH_REMATCH[8]}
    if running "$n" && [ "$url" != "$(cat "$dir/$n/server")" ]; then
      halt "$n"
    fi
    if ! running "$n"; then
      configure "$n" "$user" "$password" "$host" "$port" "$database"
      echo "$url" >"$dir/$n/server"
      launch "$n"
    fi
    pooled=${pooled:+$pooled,}postgres://$user@127.0.0.1:$(port_of "$n")/$database
  done
  echo "export ETL_CRAFT_TEST_PGBOUNCER=$pooled"
}

# halt N stops a running pooler and returns when it is gone.
halt() {
  kill -TERM "$(cat "$dir/$1/pid")"
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    running "$1" || return 0
    sleep 0.1
  done
  die "the PgBouncer of $dir/$1 does not stop"
}

stop() {
  local folder n
  for folder in "$dir"/[0-9]*/; do
    n=$(basename "$folder")
    if running "$n"; then
      halt "$n"
    fi
  done
}

main "$@"
