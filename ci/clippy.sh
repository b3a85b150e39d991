#!/usr/bin/env bash
# No lint of the workspace fires, in libraries, tests, examples and benches, with and without the
# optional features.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --locked --workspace --all-targets -- -D warnings

# Everything that is optional, too.
cargo clippy --locked --package tracezero --all-features --all-targets -- -D warnings
