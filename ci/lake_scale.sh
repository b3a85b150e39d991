#!/usr/bin/env bash
# usage: ci/lake_scale.sh [TRACES [SLICES]]
#
# Queries a fleet of traces (default: 1,000 with 10,000 slices each) on DuckDB, on a Spark cluster with two
# workers as processes of this machine, and on Sail. Runs the commands of the page 'A thousand traces' for
# Spark and Sail as they stand; Spark exports the traces, too. Kills a worker in the middle of a query, and
# checks that the answer stays the same. Prints a table of times.
#
# Not part of `.ci/run`, because Spark takes 520 MB, which are installed into target/cluster, and needs Java
# 17. Takes about five minutes after that. All servers listen on the loopback interface.
set -euo pipefail
cd "$(dirname "$0")/.."

traces=${1:-1000} slices=${2:-10000}
page=sdk/lake/src/a_thousand_traces.md
command -v java >/dev/null || { echo "Java is missing: run 'apt-get install openjdk-17-jre-headless'" >&2; exit 1; }
root=$PWD
cluster=${LAKE_CLUSTER:-$root/target/cluster}
for package in "pyspark==4.3.0" "pysail==0.7.2 pyspark-client==4.2.0"; do
    name=${package%%==*}
    [ -x "$cluster/$name/bin/python3" ] && continue
    python3 -m venv "$cluster/$name"
    # shellcheck disable=SC2086 # two words are two packages
    "$cluster/$name/bin/pip" install --quiet $package
done

folder=$(mktemp -d)
servers=()
finish() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

table=()
timed() { # timed <what> <command>...
    local what=$1 start
    shift
    start=${EPOCHREALTIME/[.,]/}
    "$@" >"$folder/log" 2>&1 || { tail -n 30 "$folder/log" >&2; exit 1; }
    local milliseconds=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
    table+=("$what: $((milliseconds / 1000)).$(printf %03d $((milliseconds % 1000))) s")
    echo "${table[-1]}"
}

cargo build --locked --release --package tracezero-lake --example fleet
cargo build --locked --release --package tracezero-cli --bin tracezero
target=$(realpath "${CARGO_TARGET_DIR:-target}")/release
export PATH=$target:$PATH

timed "$traces traces of $slices slices are recorded" "$target/examples/fleet" "$folder/traces" "$traces" "$slices"
cd "$folder"
timed "tracezero export parquet, one process" tracezero export parquet traces/*.pftrace -o one
du --summarize --human-readable traces one

# The cluster.
export SPARK_LOCAL_IP=127.0.0.1 SPARK_CONF_DIR=$folder/conf
mkdir conf
cat >conf/spark-defaults.conf <<'EOF'
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.executor.memory 2g
spark.sql.shuffle.partitions 4
# Enough tasks for a worker to be killed between two of them.
spark.sql.files.maxPartitionBytes 2m
spark.sql.files.openCostInBytes 256k
EOF
spark=$cluster/pyspark/bin
home=$("$spark/python3" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
start() { # start <name> <class> <arguments>...
    local name=$1 class=$2
    shift 2
    SPARK_HOME=$home SPARK_WORKER_DIR=$folder/work \
        "$home/bin/spark-class" "org.apache.spark.deploy.$class" --host 127.0.0.1 --webui-port 0 "$@" >"$name.log" 2>&1 &
    servers+=($!)
}
wait_for() { # wait_for <log> <text>
    for _ in $(seq 600); do
        grep --quiet "$2" "$1" && return
        sleep 0.2
    done
    echo "nothing has happened for two minutes:" >&2
    tail "$1" >&2
    exit 1
}
start master master.Master --port 0
wait_for master.log "Starting Spark master at"
SPARK_MASTER=$(grep --only-matching --max-count 1 'spark://[0-9.:]*' master.log)
export SPARK_MASTER
for number in 1 2; do
    start "worker-$number" worker.Worker --cores 1 --memory 2g "$SPARK_MASTER"
done
for number in 1 2; do
    wait_for "worker-$number.log" "Successfully registered"
done

# As the page says, with the query of its other blocks.
awk '/^cat >p99.sql/ { is_inside = 1; next } /^EOF/ { is_inside = 0 } is_inside' "$root/$page" >p99.sql
PATH=$spark:$PATH timed "the page's commands for Spark: export and query" "$root/ci/run_page.sh" "$root/$page" . spark
cat log

cat >ask.py <<'EOF'
import os, sys, time
import duckdb

answers = []
connection = duckdb.connect(config={"threads": 2})
for lake in sys.argv[1:]:
    start = time.monotonic()
    connection.sql(f"create or replace view slice as from read_parquet('{lake}/slice/**/*.parquet')")
    rows = connection.sql(open("p99.sql").read()).fetchall()
    print(f"DuckDB, {os.environ['WHAT']}, {lake}: {time.monotonic() - start:.2f} s")
    answers.append((connection.sql("select count(*), sum(dur) from slice").fetchall(), rows))
    if answers[0] != answers[-1]:
        sys.exit(f"the answers differ: {answers}")
EOF
ask_duckdb() { # ask_duckdb <what> <lake>...
    WHAT=$1 PYTHONPATH=$root/target/engines python3 ask.py "${@:2}" | tee duckdb.log
    while read -r line; do table+=("$line"); done <duckdb.log
}
# Both exports have the same rows.
ask_duckdb "first query" one lake
cp -r one compacted
timed "tracezero lake compact" tracezero lake compact compacted
ask_duckdb "p99 by name" one compacted
"$spark/python3" "$root/ci/lake_spark.py" "$SPARK_MASTER" "$folder/compacted" p99.sql "${servers[1]}" 2>spark.err | tee spark.log || {
    tail -n 30 spark.err >&2
    exit 1
}
while read -r line; do table+=("$line"); done < <(grep '^Spark' spark.log)
rm -r lake
mv compacted lake
PATH=$cluster/pysail/bin:$PATH timed "the page's commands for Sail: one query" "$root/ci/run_page.sh" "$root/$page" . sail

printf '\n%s\n' "$traces traces of $slices slices:"
printf '%s\n' "${table[@]}"
