#!/usr/bin/env bash
# usage: PERFETTO_BIN=FOLDER ci/thread_states.sh TRACE..
#
# Compares the states of threads that `tracezero summary --states` finds with the table
# `thread_state` of Perfetto's `trace_processor_shell`, which PERFETTO_BIN has. The sum of each state
# over all threads may differ by 1 %. Not part of `.ci/run`, because it needs that program, and a trace
# of a busy machine: `sudo tracezero record --kernel sched,syscalls -t 30s`.
#
# Leaves out threads that we do not know all states of, because events are missing: Perfetto takes the
# state before for all of the time. Nine of ten threads must be left.
set -euo pipefail

: "${PERFETTO_BIN:?the folder with trace_processor_shell}"
[ $# -gt 0 ] || {
    echo "give traces with scheduling events" >&2
    exit 2
}
cd "$(dirname "$0")/.."
cargo build --quiet --release --package tracezero-cli
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A state lasts until the next one of the same number, or until the thread is gone. Where Perfetto's
# states contradict each other, it leaves them open.
cat >"$folder/states.sql" <<'END'
with states as (
  select tid, state, ts, dur, end_ts,
         lead(ts) over (partition by tid order by ts, s.id) as next_ts
  from thread_state s join thread using (utid)
)
select tid,
       case state when 'Running' then 'running' when 'R' then 'runnable' when 'R+' then 'runnable'
                  when 'S' then 'sleeping' when 'D' then 'blocked' end as name,
       sum(case when dur >= 0 then dur when next_ts is null
                then coalesce(end_ts, (select max(ts) from thread_state)) - ts else 0 end) as time
from states where name is not null group by tid, name;
END

failed=0
for trace in "$@"; do
    echo "$trace"
    target/release/tracezero summary --states --json --top 0 "$trace" >"$folder/ours.json"
    "$PERFETTO_BIN/trace_processor_shell" -q "$folder/states.sql" "$trace" 2>"$folder/errors" |
        tr -d '"' >"$folder/theirs"
    # In our file, the number of a thread follows its states.
    awk -F '[",: ]+' '
        FNR == NR && $2 == "threads" { is_threads = 1 }
        FNR == NR && is_threads && $2 == "tid" {
            threads += !($3 in unknown)
            unknown[$3] += time["unknown"]
            for (state in time) ours[$3, state] += time[state]
            split("", time)
        }
        # Waits for locks are sleeps.
        FNR == NR && is_threads { time[$2 == "lock" ? "sleeping" : $2] += $3 }
        FNR == NR || FNR == 1 { next }
        ($1 in unknown) && !unknown[$1] {
            if (!($1 in known)) count++
            known[$1]
            theirs_sum[$2] += $3
            ours_sum[$2] += ours[$1, $2]
        }
        END {
            printf "  %d of %d threads are compared\n", count, threads
            wrong = count < 0.9 * threads
            split("running runnable sleeping blocked", states, " ")
            for (i = 1; i <= 4; i++) {
                a = ours_sum[states[i]]
                b = theirs_sum[states[i]]
                percent = b ? 100 * (a - b) / b : 100
                wrong += percent > 1 || percent < -1
                printf "  %-9s %12.6f s, theirs %12.6f s, %+8.4f %%\n", states[i], a / 1e9, b / 1e9, percent
            }
            exit wrong > 0
        }' "$folder/ours.json" "$folder/theirs" || failed=1
done
exit "$failed"
