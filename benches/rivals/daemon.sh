#!/usr/bin/env bash
# usage: PERFETTO_BIN=FOLDER [PERFETTO_SDK=FOLDER] benches/rivals/daemon.sh [RUNS]
#
# Prints how many spans of tight loops can be read in traces that Perfetto's daemon records, for
# each SDK, each policy, and one or two threads; RUNS times each (default: 3).
#
# PERFETTO_BIN has `traced` and `perfetto`, and may have `trace_processor_shell`. PERFETTO_SDK has
# `perfetto.h` and `perfetto.cc`, the C++ library in two files, as in Perfetto's releases. Without
# it, the C++ rows are left out.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
: "${PERFETTO_BIN:?names no folder with traced and perfetto}"
target=${CARGO_TARGET_DIR:-$here/target}

. "$here/cpp_producer.sh"
cargo build --release --quiet --locked --bin daemon \
    --manifest-path "$here/Cargo.toml" --target-dir "$target"
"$target/release/daemon" "${1:-3}"
