#!/usr/bin/env bash
# usage: ci/daemon.sh [SECONDS]
#
# Runs our daemon in a release build for SECONDS (default: 3600). Programs, sessions, clones and the
# command `perfetto` come, go, stop and are killed at random. Each trace must be right, each account
# must close to the packet, and the daemon's memory and descriptors must stay level. Then stops the
# daemon for 20 s while a session records.
#
# Not part of `.ci/run`, which does the same for seconds. Perfetto's programs are those of
# `ci/fetch.sh`, or in PERFETTO_BIN. If a program `sdk_producer` of Perfetto's SDK is with them, it takes
# part: `ci/interop.sh` makes it (`target/sdk/cpp_producer`).
set -euo pipefail
cd "$(dirname "$0")/.."

# Optimizes everything except the published schema, which would take many minutes.
run() { # run <test>
    TRACEZERO_TEST_DAEMON=tracezero \
        cargo test --locked --release --package judge --test system \
        --config 'profile.release.package.perfetto_protos.opt-level = 0' -- --nocapture "$1"
}
TRACEZERO_DAEMON_SOAK_SECONDS=${1:-3600} run soak::
TRACEZERO_SYSTEM_STOPPED_MS=20000 run stopped_daemon::
