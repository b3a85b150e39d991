#!/usr/bin/env bash
# Runs the README's first command, with its trace in a temporary folder, and checks that there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trace=$folder/index_tree.pftrace

cargo run --locked --release --example index_tree -- --output "$trace"

if [ ! -s "$trace" ]; then
    echo "index_tree left no trace, or an empty one, at $trace" >&2
    exit 1
fi
echo "index_tree.pftrace: $(stat --format=%s "$trace") bytes"
