#!/usr/bin/env bash
# usage: ci/soak.sh [SECONDS]
#
# Runs the soak test for a minute by default: short-lived threads and sessions with too little
# memory. Each account must match to the packet, and each trace must be well-formed.
set -euo pipefail
cd "$(dirname "$0")/.."

# Uses the build of `ci/test.sh`, for the whole workspace; an optimized build of the published
# schema would take longer than the test.
SOAK_SECONDS="${1:-60}" cargo test --locked --workspace --test soak -- --nocapture
