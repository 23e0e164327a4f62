# What postgres.sh and pgbouncer.sh share; both source it. They run as "SCRIPT start DIR" or "SCRIPT stop DIR" and define
# the functions start and stop, which find DIR's absolute path in $dir.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
umask 022 # the servers' user reads what root unpacks

cache=${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test
readonly cache

say() { echo "$(basename "$0"): $*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
need() { has "$1" || die "$1 is missing: $2"; }

# The servers refuse to run as root.
as_server_user() {
  if [ "$(id -u)" -ne 0 ]; then
    "$@"
    return
  fi
  setpriv --reuid="$server_user" --regid="$(id -g "$server_user")" --clear-groups -- "$@"
}

# enter makes $dir and keeps other calls of the script out of it until this one ends. A server that is started must not
# inherit the lock: close descriptor 9.
enter() {
  need flock "it comes with util-linux"
  mkdir -p "$dir"
  as_server_user test -x "$dir" || die "the user $server_user cannot reach $dir: choose a folder outside root's home"
  exec 9>"$dir/lock"
  flock 9
}

listening() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port FIRST is the first of FIRST, FIRST + 100, … that nobody listens on.
free_port() {
  local port=$1
  while listening "$port"; do port=$((port + 100)); done
  echo "$port"
}

# main runs the script's arguments.
main() {
  if [ $# -ne 2 ] || { [ "$1" != start ] && [ "$1" != stop ]; }; then
    die "usage: $(basename "$0") start DIR | stop DIR"
  fi
  server_user=postgres
  id "$server_user" >/dev/null 2>&1 || server_user=nobody
  [ "$(id -u)" -ne 0 ] || need setpriv "it comes with util-linux"
  case $2 in /*) dir=$2 ;; *) dir=$PWD/$2 ;; esac
  "$1"
}
