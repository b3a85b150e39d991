#!/usr/bin/env bash
# usage: ci/export.sh [MB]
#
# Compares `tracezero export parquet` with `tracezero summary`, on traces of MB megabytes (default: 500) that have a span
# over the whole of them: one of plain spans, one with arguments, instants and counters. Prints the time of both, the
# highest memory of the export and the size of a slice. Fails if the export has less than 0.3 of the rate of `summary`,
# takes 256 MiB or more, or more than 8 bytes per slice. Needs an idle machine with two cores, and twice
# MB of disk. Not part of `.ci/run`, because times depend on the machine; `ci/tool.sh` checks memory and size.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/memory.sh

size_mb=${1:-500}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --locked --release --package tracezero-cli --bin tracezero --example many_spans
binaries=$(realpath "${CARGO_TARGET_DIR:-target}")/release
failed=0

seconds() { # seconds <command>...: prints how long a command takes
    local began=$EPOCHREALTIME
    "$@" >/dev/null
    local ended=$EPOCHREALTIME
    echo "$ended $began" | awk '{ printf "%.2f", $1 - $2 }'
}

printf '%-6s %10s %12s %11s %6s %10s %8s\n' trace MB "summary s" "export s" ratio "peak MiB" "B/slice"
for kind in plain args; do
    trace=$folder/$kind.pftrace
    "$binaries/examples/many_spans" "$size_mb" "$trace" "$kind" >/dev/null
    # The first run reads the file into memory.
    seconds "$binaries/tracezero" summary "$trace" >/dev/null
    summary=$(seconds "$binaries/tracezero" summary "$trace")
    began=$EPOCHREALTIME
    peak=$(peak_mib "$folder/log" "$binaries/tracezero" export parquet "$trace" -o "$folder/lake")
    export=$(echo "$EPOCHREALTIME $began" | awk '{ printf "%.2f", $1 - $2 }')
    slices=$(sed -n 's/.* \([0-9]*\) slices.*/\1/p' "$folder/log")
    bytes=$(find "$folder/lake/slice" -name '*.parquet' -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
    mb=$(($(stat -c %s "$trace") / 1000000))
    echo "$kind $mb $summary $export $peak $slices $bytes" | awk '
        { ratio = $3 / $4; size = $7 / $6
          printf "%-6s %10d %12.2f %11.2f %6.2f %10d %8.2f\n", $1, $2, $3, $4, ratio, $5, size
          exit ratio < 0.3 || $5 >= 256 || size > 8 }' || failed=1
    rm -rf "$trace" "$folder/lake"
done
exit "$failed"
