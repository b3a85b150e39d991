#!/usr/bin/env bash
# usage: PERFETTO_BIN=FOLDER benches/rivals/kernel.sh [RUNS [rates|overhead]..]
#
# Prints what it costs to record the kernel with Perfetto's `traced_probes`, and with `tracezero probes`: RUNS times
# each (default: 3), all tables or those that are named. Needs root.
#
# PERFETTO_BIN has `traced`, `traced_probes` and `perfetto`, as `ci/fetch_perfetto.sh` makes it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
: "${PERFETTO_BIN:?names no folder with traced, traced_probes and perfetto}"
target=${CARGO_TARGET_DIR:-$here/target}
tool_target=${CARGO_TARGET_DIR:-$here/../../target}

cargo build --release --quiet --locked --bin kernel \
    --manifest-path "$here/Cargo.toml" --target-dir "$target"
cargo build --release --quiet --locked --package tracezero-cli \
    --manifest-path "$here/../../Cargo.toml" --target-dir "$tool_target"
export TRACEZERO=${TRACEZERO:-$tool_target/release/tracezero}
# Mounts the tracer's files for these programs only.
unshare --mount sh -c 'mount -t tracefs nodev /sys/kernel/tracing && exec "$@"' sh \
    "$target/release/kernel" "${1:-3}" "${@:2}"
