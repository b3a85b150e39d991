#!/usr/bin/env bash
# Records a trace with the official binding to Perfetto's C++ library and one with `perfetto-recorder`, exports
# both as tables, and checks that DuckDB and DataFusion read in them what the judge finds in the traces.
#
# Not part of `.ci/run`, because it needs a C++ compiler, and more than a minute of it.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo run --locked --release --manifest-path benches/rivals/Cargo.toml --bin foreign -- "$folder"
cargo build --locked --release --package tracezero-cli --bin tracezero
cargo build --locked --package judge --bin judge
target=$(realpath "${CARGO_TARGET_DIR:-target}")
# These SDKs do not obey all rules of `tracezero check` and of the judge. Both say so and read on.
"$target/release/tracezero" export parquet "$folder"/*.pftrace -o "$folder/lake" || [ $? = 1 ]
"$target/debug/judge" --tables "$folder/expected.json" "$folder"/*.pftrace >"$folder/log" 2>&1 || true
for engine in duckdb datafusion; do
    PYTHONPATH=${TRACEZERO_ENGINES:-target/engines} python3 tests/judge/engines/compare.py \
        "$engine" "$folder/lake" "$folder/expected.json"
done
