#!/usr/bin/env bash
# Checks that rustfmt would change nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo fmt --manifest-path sdk/query/Cargo.toml --check
