#!/usr/bin/env bash
# usage: ci/kills.sh [KILLS]
#
# Runs the test that kills a program with crash files at random moments, KILLS times (default: 250)
# for each of five kinds of sessions, in a release build. Every packet that the program had reported
# must be in the recovered trace once. The usual run of the tests has 100 kills. Then kills rings that
# keep states as often; the usual run has 3 such kills.
set -euo pipefail
cd "$(dirname "$0")/.."

# Optimizes everything except the published schema, which would take many minutes.
TRACEZERO_KILLS=${1:-250} cargo test --locked --release --package judge --test crash \
    --config 'profile.release.package.perfetto_protos.opt-level = 0' -- kills
TRACEZERO_KILLS=${1:-250} cargo test --locked --release --test recovered_states -- after_a_kill
