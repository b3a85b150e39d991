#!/usr/bin/env bash
# usage: PERFETTO_BIN=FOLDER [PERFETTO_SDK=FOLDER] benches/rivals/service.sh [RUNS [load|latency|idle]..]
#
# Prints what Perfetto's daemon `traced` costs, and what `tracezero daemon` costs, with the same producers: RUNS times
# each (default: 3), all tables or those that are named.
#
# PERFETTO_BIN has `traced` and `perfetto`. PERFETTO_SDK has `perfetto.h` and `perfetto.cc`, the C++ library in two
# files, as in Perfetto's releases. Without it, the rows with producers in C++ are left out.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
: "${PERFETTO_BIN:?names no folder with traced and perfetto}"
target=${CARGO_TARGET_DIR:-$here/target}
tool_target=${CARGO_TARGET_DIR:-$here/../../target}

. "$here/cpp_producer.sh"
cargo build --release --quiet --locked --bin daemon --bin service \
    --manifest-path "$here/Cargo.toml" --target-dir "$target"
cargo build --release --quiet --locked --package tracezero-cli \
    --manifest-path "$here/../../Cargo.toml" --target-dir "$tool_target"
export TRACEZERO=$tool_target/release/tracezero
"$target/release/service" "${1:-3}" "${@:2}"
