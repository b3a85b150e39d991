#!/usr/bin/env bash
# Model tests of the shared memory: every interleaving that loom finds. Should a new model take too
# long, LOOM_MAX_PREEMPTIONS=3 bounds the search.
set -euo pipefail
cd "$(dirname "$0")/.."

# Flags of its own would throw away what the other jobs have built.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
RUSTFLAGS="--cfg loom" cargo test --locked --package tracezero --lib --release loom
