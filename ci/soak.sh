#!/usr/bin/env bash
# usage: ci/soak.sh [SECONDS]
#
# Threads and sessions that come and go, with too little memory, for a minute unless told otherwise:
# each account closes to the packet, and each trace is well-formed.
set -euo pipefail
cd "$(dirname "$0")/.."

SOAK_SECONDS="${1:-60}" \
    cargo test --locked --release --package judge --test soak -- --nocapture
