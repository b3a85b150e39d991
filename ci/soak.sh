#!/usr/bin/env bash
# usage: ci/soak.sh [SECONDS]
#
# Threads and sessions that come and go, with too little memory, for a minute unless told otherwise:
# each account closes to the packet, and each trace is well-formed.
set -euo pipefail
cd "$(dirname "$0")/.."

# What `ci/test.sh` has built, so for the whole workspace; an optimized build of the published schema
# would take longer than this.
SOAK_SECONDS="${1:-60}" cargo test --locked --workspace --test soak -- --nocapture
