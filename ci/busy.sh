#!/usr/bin/env bash
# usage: ci/busy.sh [RUNS]
#
# Runs all tests RUNS times (default: 20), beside two busy loops per core: no test may depend on the
# speed of the machine. Prints which tests failed, and how often; fails if any did. Not part of
# `.ci/run`, because it takes RUNS times as long as the tests, and three times that because of the
# load.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/loops.sh

runs=${1:-20}
# A run that takes longer counts as hung.
limit=${BUSY_LIMIT:-60m}

logs=$(mktemp -d)
finish() {
    stop_loops
    rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Build before the load starts.
cargo test --locked --workspace --no-run

start_loops

# Prints the failures in the log of a run as `target: test`, and targets that ended in another way.
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
        # Print the output of the failed tests, which is all that is known of them.
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
