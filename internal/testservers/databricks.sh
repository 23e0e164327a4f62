#!/usr/bin/env bash
# Starts and stops Spark with Delta Lake behind the protocol of Databricks.
#
#   databricks.sh start DIR    prints "export ETL_CRAFT_TEST_DATABRICKS=...", a DSN for databricks-sql-go with the catalog main
#   databricks.sh stop DIR     stops it, and its tables are gone
#
# Both are safe to repeat. databricks/shim, at the first free port from 18290, translates for Spark's Thrift server, at one of its
# own. databricks/catalog adds to Delta's catalog what its SQL refuses although Delta has it: generated columns, identity columns
# and three-part names. Both listen on 127.0.0.1 only, let every local user in, who can make Spark run programs, and run as the
# user who starts them, Spark in 1.5 GB of heap. pip and Maven fetch 440 MB once into
# ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test, where they take 300 MB; versions and checksums are pinned below.
#
# Needs Linux, bash, flock, setsid, Go and a JDK from 17 to 21, in $JAVA_HOME, on PATH or in /usr/lib/jvm; for the first start also
# python3 with pip, and Maven.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

readonly spark=4.0.1
readonly spark_package=9d1f22d994f60369228397e3479003ffe2dd736ba79165003246ff7bd48e2c73
readonly delta=4.0.1
readonly delta_spark=a1e76860b19fe1e6b205a4ea7a9099a2f9575d39bb71d49b3e679b299d0efb91
readonly delta_storage=ecc42c5aaa51c423312d9e4e48aa4a12b34740bf2c37de0e8f279277ec3d12e4
readonly patience=600 # seconds: it starts in 15, on a busy machine in many more
server_user=$(id -un)
here=$(cd "$(dirname "$0")" && pwd)

fill_jars() {
  from_pypi "pyspark==$spark" $spark_package --no-binary pyspark
  say "unpacking"
  tar -xzf "$file" -C "$home" --strip-components=3 --wildcards '*/deps/jars/*.jar' --exclude='*kubernetes*' --exclude='*mllib*' \
    --exclude='*graphx*' --exclude='*spark-connect*' --exclude='*breeze*' --exclude='*spire*' --exclude='*cats-kernel*' \
    --exclude='*rocksdbjni*' --exclude='*okhttp*' --exclude='*algebra*'
  fetched_away
  from_maven "io.delta:delta-spark_2.13:$delta:jar" $delta_spark
  mv "$file" "$home/"
  from_maven "io.delta:delta-storage:$delta:jar" $delta_storage
  mv "$file" "$home/"
  fetched_away
}

sources() { find "$here/databricks/catalog" -name '*.java' | sort; }

fill_catalog() {
  local files
  mapfile -t files < <(sources)
  "$java/bin/javac" -nowarn -proc:none --release 17 -cp "$jars/*" -d "$home" "${files[@]}" || die "the catalog does not compile"
}

configure() {
  rm -rf "$dir/warehouse" "$dir/tmp" # Spark's catalog is in memory
  mkdir -p "$dir/warehouse" "$dir/tmp" "$dir/conf"
  cat >"$dir/conf/log4j2.properties" <<-CONF
		rootLogger.level = warn
		rootLogger.appenderRef.stderr.ref = console
		appender.console.type = Console
		appender.console.name = console
		appender.console.target = SYSTEM_ERR
		appender.console.layout.type = PatternLayout
		appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
	CONF
}

# launch_spark PORT. There is one kind of log only, and little is compiled and planned in parallel: for small data that is faster.
# It forgets tables, statements and jobs soon, else its heap is full of them after some thousand statements.
launch_spark() {
  local opened=() package
  for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent \
    java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
    opened+=("--add-opens=java.base/$package=ALL-UNNAMED")
  done
  # Its HTTP mode would listen on all addresses.
  spawn spark env SPARK_LOCAL_IP=127.0.0.1 "$java/bin/java" -Xmx1500m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
    "${opened[@]}" -Djdk.reflect.useDirectMethodHandle=false -Dio.netty.tryReflectionSetAccessible=true \
    -Djava.io.tmpdir="$dir/tmp" -Dderby.system.home="$dir/tmp" -cp "$dir/conf:$catalog:$jars/*" \
    org.apache.spark.deploy.SparkSubmit --master 'local[2]' \
    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \
    --conf spark.sql.catalog.spark_catalog=etl.SessionCatalog --conf spark.sql.catalog.main=etl.NamedCatalog \
    --conf spark.sql.sources.default=delta --conf spark.sql.catalogImplementation=in-memory \
    --conf spark.sql.session.timeZone=UTC --conf spark.sql.warehouse.dir="$dir/warehouse" --conf spark.local.dir="$dir/tmp" \
    --conf spark.databricks.delta.delta.log.cacheSize=50 --conf spark.sql.thriftserver.ui.retainedStatements=10 \
    --conf spark.sql.thriftserver.ui.retainedSessions=10 --conf spark.sql.ui.retainedExecutions=10 --conf spark.ui.retainedJobs=10 \
    --conf spark.ui.retainedStages=10 --conf spark.ui.retainedTasks=100 \
    --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 \
    --conf spark.sql.shuffle.partitions=1 --conf spark.default.parallelism=1 --conf spark.databricks.delta.snapshotPartitions=1 \
    --conf spark.sql.sources.parallelPartitionDiscovery.parallelism=2 \
    --conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN \
    --class org.apache.spark.sql.hive.thriftserver.HiveThriftServer2 spark-internal \
    --hiveconf hive.server2.transport.mode=binary --hiveconf hive.server2.authentication=NOSASL \
    --hiveconf hive.server2.thrift.bind.host=127.0.0.1 --hiveconf hive.server2.thrift.port="$1" \
    --hiveconf hive.server2.logging.operation.enabled=false
}

start() {
  local java port jars catalog
  java=$(java_home 17 21 javac) ||
    die "a JDK from 17 to 21 is missing: install one (Debian: apt-get install default-jdk-headless), or set ETL_CRAFT_TEST_DATABRICKS to a warehouse of your own"
  need go "install the version that go.mod names"
  need setsid "it comes with util-linux"
  enter
  if ! spawned spark || ! spawned shim; then
    stop
    cached "spark-$spark-delta-$delta" fill_jars
    jars=$home
    cached "spark-catalog-$(sources | xargs -d '\n' cat | sha256sum | head -c 8)" fill_catalog
    catalog=$home
    (cd "$here" && go build -o "$dir/shim" ./databricks/shim) || die "the shim does not build"
    choose_ports_alone
    port=$(free_ports 18290 2)
    configure
    launch_spark "$((port + 1))"
    spawn shim "$dir/shim" -listen "127.0.0.1:$port" -spark "127.0.0.1:$((port + 1))" -token dapi-local -wait "${patience}s"
    echo "$port" >"$dir/port"
  fi
  port=$(cat "$dir/port")
  await "$patience" listening "$port" # which the shim does when Spark has carried out a statement
  exported ETL_CRAFT_TEST_DATABRICKS "http://token:dapi-local@127.0.0.1:$port/sql/1.0/warehouses/local?catalog=main"
}

stop() {
  reap shim 5
  reap spark 15
}

main "$@"
