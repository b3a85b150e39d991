#!/usr/bin/env bash
# Builds the program `tracezero-query`, which `.ci/run` leaves out because its engine takes minutes, and tests it.
# Prints what an installation costs. Then runs it as `tracezero query`, over the trace of an example and over a lake
# of it: both must have the same rows. Downloads the packages that its lock file names.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-sdk/query/target}")
query=(--locked --manifest-path sdk/query/Cargo.toml --target-dir "$target")
CARGO_NET_OFFLINE=false cargo fetch --locked --manifest-path sdk/query/Cargo.toml

started=$SECONDS
# Builds the program as well. A build without the tests would have other features, and build the engine twice.
cargo test "${query[@]}" --release --no-run
program=$target/release/tracezero-query
echo "tracezero-query: built in $((SECONDS - started)) s, $(stat --format=%s "$program") bytes"
cargo test "${query[@]}" --release
cargo clippy "${query[@]}" --release --all-targets -- -D warnings

cargo build --locked --release --package tracezero-cli --bin tracezero
cargo build --locked --release --example index_tree
built=$(realpath "${CARGO_TARGET_DIR:-target}")/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$built/tracezero" "$program" "$folder"
"$built/examples/index_tree" --output "$folder/index_tree.pftrace" >/dev/null
cd "$folder"
./tracezero export parquet index_tree.pftrace -o lake

select="SELECT name, count(*) AS calls, percentile_cont(dur, 0.99) AS p99, sum(self_dur) AS self
    FROM slice WHERE dur >= 0 GROUP BY name ORDER BY self DESC, name"
./tracezero query "$select" index_tree.pftrace
for format in table csv json; do
    ./tracezero query "$select" --format $format index_tree.pftrace >of_trace
    ./tracezero query "$select" --format $format lake >of_lake
    cmp of_trace of_lake
done
echo "the trace and the lake have the same rows"
