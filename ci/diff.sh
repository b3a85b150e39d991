#!/usr/bin/env bash
# usage: ci/diff.sh [MB]
#
# Measures `tracezero diff`, with fixed seeds. First how often it finds changes and raises false alarms in
# made-up tables, then the same with 40 sets of traces in files, then its time for two traces of MB
# megabytes each (default: 1000) against that of `tracezero summary` for one. Fails if a change of 2 % is
# found in less than 95 % of the trials, if more than 1 % of equal sides raise an alarm, or if two traces
# take longer than five summaries. Not part of `.ci/run`, because it takes some minutes and needs an idle
# machine.
set -euo pipefail
cd "$(dirname "$0")/.."

megabytes=${1:-1000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --locked --release --package tracezero-cli --bin tracezero --example many_spans --example noisy_traces
binaries=$(realpath "${CARGO_TARGET_DIR:-target}")/release

echo "--- trials"
cargo test --locked --release --package tracezero-cli --bin tracezero -- --ignored --nocapture long_trials |
    tee "$folder/trials" | grep --line-buffered '^|\|^$\|^test result'
grep -q '^test result: ok. 1 passed' "$folder/trials"

echo "--- traces in files"
for slower in 2 0; do
    found=0 alarms=0
    for seed in $(seq 20); do
        "$binaries/examples/noisy_traces" "$folder/traces" "$slower" "$seed"
        status=0
        "$binaries/tracezero" diff "$folder"/traces/before*.pftrace --with "$folder"/traces/after*.pftrace \
            >"$folder/report" || status=$?
        ((status <= 1))
        alarms=$((alarms + status))
        if grep -Eq '^  (perhaps )?slower +thread +function_00 ' "$folder/report"; then
            found=$((found + 1))
        fi
    done
    echo "function_00 is $slower % slower: found in $found of 20 sets, $alarms alarms"
    ((slower == 0 || found >= 18))
    ((slower == 2 || alarms <= 1))
done
rm -r "$folder/traces"

echo "--- time"
for side in before after; do
    "$binaries/examples/many_spans" "$megabytes" "$folder/$side" >/dev/null
done
milliseconds() { # milliseconds <argument..>
    local began
    began=$(date +%s%N)
    "$binaries/tracezero" "$@" >/dev/null
    echo $((($(date +%s%N) - began) / 1000000))
}
for _ in 1 2 3 4 5; do
    milliseconds summary "$folder/before" >>"$folder/summary"
    milliseconds diff "$folder/before" "$folder/after" >>"$folder/diff"
done
median() { sort -n "$1" | sed -n 3p; }
summary=$(median "$folder/summary") diff=$(median "$folder/diff")
echo "medians of 5: summary $summary ms, diff $diff ms"
((diff <= 5 * summary))
