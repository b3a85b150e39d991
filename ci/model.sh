#!/usr/bin/env bash
# usage: ci/model.sh [FIRST_SEED [OPERATIONS]]
#
# Compares the trace buffer with its model, in 1,000,000 random operations by default. Prints a
# difference as a scenario that the conformance test can run:
#
#   TRACE_BUFFER_SCENARIOS=file cargo test -p tracezero-service --test conformance
set -euo pipefail
cd "$(dirname "$0")/.."

TRACE_BUFFER_SEED="${1:-0}" TRACE_BUFFER_OPERATIONS="${2:-1000000}" \
    cargo test --locked --release --package tracezero-service --test trace_buffer_model -- --nocapture
