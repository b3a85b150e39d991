#!/usr/bin/env bash
# No lint of the workspace fires, in libraries, tests, examples and benches.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --locked --workspace --all-targets -- -D warnings
