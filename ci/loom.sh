#!/usr/bin/env bash
# Model tests of the shared memory: every interleaving with up to three preemptions of a thread.
# LOOM_MAX_PREEMPTIONS sets another bound.
set -euo pipefail
cd "$(dirname "$0")/.."

# Flags of its own would throw away what the other jobs have built.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
RUSTFLAGS="--cfg loom" cargo test --locked --package tracezero --lib --release loom
