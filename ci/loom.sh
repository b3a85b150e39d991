#!/usr/bin/env bash
# Runs the model tests of the shared memory with loom, for every interleaving that loom finds. If a
# new model takes too long, LOOM_MAX_PREEMPTIONS=3 bounds the search.
set -euo pipefail
cd "$(dirname "$0")/.."

# Other RUSTFLAGS would invalidate what the other jobs have built. If a target is named, the flags do
# not apply to build scripts and macros, so those are not built again.
target=$(rustc --version --verbose | sed -n 's/^host: //p')
RUSTFLAGS="--cfg loom" cargo test --locked --package tracezero-core --lib --target "$target" loom
