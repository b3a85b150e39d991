#!/usr/bin/env bash
# Every example runs to its end, and every bench runs once, unmeasured.
set -euo pipefail
cd "$(dirname "$0")/.."

# Examples write their traces into the folder they run in.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --locked --release --examples
binaries=$(realpath "${CARGO_TARGET_DIR:-target}")/release/examples
for source in examples/*.rs examples/*/main.rs; do
    name=${source#examples/}
    name=${name%/main.rs}
    name=${name%.rs}
    echo "--- example $name"
    (cd "$folder" && "$binaries/$name")
done

echo "--- benches"
cargo bench --locked --package tracezero-examples --benches -- --test
