#!/usr/bin/env bash
# usage: ci/long.sh [RUNS]
#
# Runs the test `full_speed` with long loops: four threads record 500,000 spans each at full speed,
# then 100 each slowly, with the default configuration. Runs it RUNS times (default: 20), and RUNS
# times beside two busy loops per core. Prints a line for each run, with the report's counts and the
# slices that a foreign reader finds. Fails if a run lost an event or its trace could not be read.
# Then builds and tests `tracezero-query`.
# Not part of `.ci/run`, because it takes too long and needs an idle machine. Traces go to TMPDIR;
# the last one that fails is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/loops.sh

runs=${1:-20}
# A run that takes longer counts as hung.
limit=${LONG_LIMIT:-5m}
export FULL_SPEED_SPANS=500000 FULL_SPEED_SLOW_SPANS=100

kept=${CARGO_TARGET_DIR:-target}/long-failed.pftrace
folder=$(mktemp -d)
finish() {
    stop_loops
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Optimizes everything except the published schema, which would take many minutes.
program=$(
    cargo test --locked --release --package judge --test full_speed --no-run \
        --config 'profile.release.package.perfetto_protos.opt-level = 0' \
        --message-format json-render-diagnostics |
        sed -n 's/.*"name":"full_speed".*"executable":"\([^"]*\)".*/\1/p'
)

failed=0
run_all() { # run_all <where>
    local run started result how log=$folder/log
    for ((run = 1; run <= runs; run++)); do
        started=$SECONDS
        how=passed
        TMPDIR=$folder timeout --kill-after=10 "$limit" "$program" --nocapture >"$log" 2>&1 || how=failed
        result=$(sed -n 's/.*full speed: //p' "$log")
        printf '%s, run %d of %d: %s; %s in %d s\n' \
            "$1" "$run" "$runs" "${result:-no result}" "$how" "$((SECONDS - started))"
        if [ "$how" = failed ]; then
            failed=$((failed + 1))
            cat "$log" >&2
            if mv "$folder"/*.pftrace "$kept" 2>/dev/null; then
                echo "    its trace: $kept" >&2
            fi
        fi
    done
}

run_all "without a load"
start_loops
run_all "beside a load"

echo "$((2 * runs - failed)) of $((2 * runs)) runs lost nothing."
stop_loops
ci/query.sh
((failed == 0))
