#!/usr/bin/env bash
# usage: ci/model.sh [FIRST_SEED [COUNT]]
#
# Compares the trace buffer with its model, in COUNT random operations, and the machine of ProtoVM
# with its model, in COUNT random programs; 1,000,000 by default. Prints a difference of the trace
# buffer as a scenario that the conformance test can run:
#
#   TRACE_BUFFER_SCENARIOS=file cargo test -p tracezero-service --test conformance
set -euo pipefail
cd "$(dirname "$0")/.."

TRACE_BUFFER_SEED="${1:-0}" TRACE_BUFFER_OPERATIONS="${2:-1000000}" \
    cargo test --locked --release --package tracezero-service --test trace_buffer_model -- --nocapture
PROTOVM_SEED="${1:-0}" PROTOVM_PROGRAMS="${2:-1000000}" \
    cargo test --locked --release --package tracezero-protovm --test model -- --nocapture
