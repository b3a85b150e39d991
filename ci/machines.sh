#!/usr/bin/env bash
# usage: PERFETTO_BIN=FOLDER ci/machines.sh TRACE TRACE..
#
# Merges traces as if each were of another machine, and compares what Perfetto's
# `trace_processor_shell`, which PERFETTO_BIN has, finds in the merged trace with what it finds in each
# of them: the number of slices, their time all in all, processes and threads, and the time of the first
# slice on the first trace's clock. Not part of `.ci/run`, because it needs that program.
set -euo pipefail

: "${PERFETTO_BIN:?the folder with trace_processor_shell}"
[ $# -gt 1 ] || {
    echo "give two traces or more" >&2
    exit 2
}
traces=()
for trace in "$@"; do traces+=("$(realpath "$trace")"); done
cd "$(dirname "$0")/.."
cargo build --quiet --package tracezero-cli
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

query() {
    "$PERFETTO_BIN/trace_processor_shell" -Q "$2" "$1" 2>"$folder/errors" | tail -n +2 | tr -d '"'
}

# The figures of the machine with this id.
figures() {
    query "$1" "
      with placed as (
        select s.ts, s.dur, coalesce(t.machine_id, p.machine_id, 0) as machine
        from slice s
        left join thread_track tt on s.track_id = tt.id left join thread t using (utid)
        left join process_track pt on s.track_id = pt.id left join process p on pt.upid = p.upid
        where s.dur >= 0 and coalesce(t.utid, p.upid) is not null
      ), machines as (select id from machine where raw_id = $2)
      select count(*), sum(dur), min(ts) + $3,
             (select count(*) from thread where machine_id in machines and tid > 0),
             (select count(*) from process where machine_id in machines and pid > 0)
      from placed where machine in machines"
}

options=()
for index in "${!traces[@]}"; do
    # All clocks are the same in truth.
    options+=(--machine "${traces[index]}=machine-$index")
    [ "$index" = 0 ] || options+=(--clock-offset "${traces[index]}=${index}ms")
done
target/debug/tracezero merge "${traces[@]}" "${options[@]}" -o "$folder/merged"
failed=0
for index in "${!traces[@]}"; do
    expected=$(figures "${traces[index]}" 0 $((index * 1000000)))
    found=$(figures "$folder/merged" "$index" 0)
    echo "machine $index: slices, their time, first time, threads, processes: $found"
    [ "$expected" = "$found" ] || {
        echo "expected: $expected" >&2
        failed=1
    }
done
errors=$(query "$folder/merged" "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
[ -z "$errors" ] || {
    echo "$errors" >&2
    failed=1
}
exit $failed
