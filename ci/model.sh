#!/usr/bin/env bash
# usage: ci/model.sh [FIRST_SEED [OPERATIONS]]
#
# The trace buffer against its model, 1,000,000 random operations unless told otherwise. A
# difference is printed as a scenario that the conformance test can run:
#
#   TRACE_BUFFER_SCENARIOS=file cargo test -p tracezero-service --test conformance
set -euo pipefail
cd "$(dirname "$0")/.."

TRACE_BUFFER_SEED="${1:-0}" TRACE_BUFFER_OPERATIONS="${2:-1000000}" \
    cargo test --locked --release --package tracezero-service --test trace_buffer_model -- --nocapture
