#!/usr/bin/env bash
# Checks that no lint fires in libraries, tests, examples and benches, with and without the optional
# features.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --locked --workspace --all-targets -- -D warnings

# As users depend on it: with no optional feature, with each one, and with all.
cargo clippy --locked --package tracezero -- -D warnings
for feature in text-config deflate zstd signals reader testing tracing; do
    cargo clippy --locked --package tracezero --features "$feature" -- -D warnings
done
cargo clippy --locked --package tracezero --all-features --all-targets -- -D warnings
