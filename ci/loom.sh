#!/usr/bin/env bash
# Model tests of the shared memory: every interleaving that loom finds. Should a new model take too
# long, LOOM_MAX_PREEMPTIONS=3 bounds the search.
set -euo pipefail
cd "$(dirname "$0")/.."

# Flags of its own would throw away what the other jobs have built.
# With a target named, the flags are not those of build scripts and macros, which are built already.
target=$(rustc --version --verbose | sed -n 's/^host: //p')
RUSTFLAGS="--cfg loom" cargo test --locked --package tracezero-core --lib --target "$target" loom
