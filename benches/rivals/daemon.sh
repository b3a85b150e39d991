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

if [ -n "${PERFETTO_SDK:-}" ]; then
    export CPP_PRODUCER=$target/cpp_producer
    # The library takes minutes.
    if [ ! -e "$target/perfetto.o" ]; then
        c++ -std=c++17 -O2 -c "$PERFETTO_SDK/perfetto.cc" -o "$target/perfetto.o"
    fi
    c++ -std=c++17 -O2 -I"$PERFETTO_SDK" "$here/src/bin/daemon/producer.cc" "$target/perfetto.o" \
        -pthread -o "$CPP_PRODUCER"
else
    echo "The C++ rows are left out: they need PERFETTO_SDK." >&2
fi
cargo build --release --quiet --locked --bin daemon \
    --manifest-path "$here/Cargo.toml" --target-dir "$target"
"$target/release/daemon" "${1:-3}"
