#!/usr/bin/env bash
# usage: ci/busy.sh [RUNS]
#
# All tests, RUNS times (20 unless told otherwise), beside two busy loops per core: a test must not
# need a machine in time. Says which tests failed, and how often; fails if any did. It is no part of
# `.ci/run`: it takes RUNS times as long as the tests, and three times that for the load.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/loops.sh

runs=${1:-20}
# A run that takes longer hangs.
limit=${BUSY_LIMIT:-60m}

logs=$(mktemp -d)
finish() {
    stop_loops
    rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Nobody is in a hurry yet.
cargo test --locked --workspace --no-run

start_loops

# What failed in the log of a run, as `target: test`, and targets that ended otherwise.
failures() {
    awk '
        / Running | Doc-tests / { target = $0; sub(/^ *(Running( unittests)?|Doc-tests) /, "", target); sub(/ \(.*/, "", target) }
        /^test .* \.\.\. FAILED$/ { sub(/^test /, ""); sub(/ \.\.\. FAILED$/, ""); print target ": " $0; named[target] = 1 }
        /^test .* has been running for over/ { late[target ": " $2] = 1 }
        /^test .* \.\.\. ok$/ { delete late[target ": " $2] }
        /process didn.t exit successfully/ && !(target in named) { print target ": ended without a result" }
        END { for (test in late) print test " (hangs, or is slow)" }
    ' "$1" | sort -u
}

failed_runs=0
for ((run = 1; run <= runs; run++)); do
    started=$SECONDS
    log=$logs/$run
    if timeout --kill-after=10 "$limit" cargo test --locked --workspace --no-fail-fast >"$log" 2>&1; then
        printf 'run %d of %d: passed in %d s\n' "$run" "$runs" "$((SECONDS - started))"
    else
        failed_runs=$((failed_runs + 1))
        printf 'run %d of %d: failed after %d s\n' "$run" "$runs" "$((SECONDS - started))"
        failures "$log" | tee "$log.failures" | sed 's/^/    /'
        # What a test said is all there is to go by.
        sed -n '/^failures:$/,/^test result/p' "$log" >&2
    fi
done

if ((failed_runs == 0)); then
    echo "$runs of $runs runs passed."
    exit 0
fi
echo "$failed_runs of $runs runs failed:"
cat "$logs"/*.failures | sort | uniq -c | sort -rn
exit 1
