#!/usr/bin/env bash
# The trace buffer against its model, in full: the tests do fewer operations in a build without
# optimizations.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --release --package tracezero --test trace_buffer_model
