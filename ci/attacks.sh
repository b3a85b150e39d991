#!/usr/bin/env bash
# usage: ci/attacks.sh [SECONDS]
#
# Attacks the service for SECONDS (default: 600) in each test of hostile producers that takes a time,
# in a release build with debug assertions: shared memory that four threads change all the time. An
# honest producer's trace must stay exact. The usual run of the tests attacks for one second.
set -euo pipefail
cd "$(dirname "$0")/.."

TRACEZERO_ATTACK_SECONDS=${1:-600} cargo test --locked --release --package tracezero-service --lib \
    --config 'profile.release.debug-assertions = true' -- hostile
