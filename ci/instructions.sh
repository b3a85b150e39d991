#!/usr/bin/env bash
# Checks that no kind of field and no way to record takes more instructions than before, and that
# events take as many with crash files as without, and no more while a daemon records. Needs valgrind
# with Callgrind and Perfetto's daemon, which ci/fetch.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench --locked --package protozero --bench instructions
plain=$(cargo bench --locked --package tracezero --bench instructions)
echo "$plain"
crash_safe=$(TRACEZERO_CRASH_SAFE=1 cargo bench --locked --package tracezero --bench instructions)
# A thousand events fill chunks, and a chunk costs a little more.
if ! diff <(grep -v thousand <<<"$plain") <(grep -v thousand <<<"$crash_safe"); then
    echo "events take other numbers of instructions with crash files" >&2
    exit 1
fi

echo "--- while a daemon records"
perfetto=${PERFETTO_BIN:-target/perfetto/bin}
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$folder"' EXIT
export PERFETTO_PRODUCER_SOCK_NAME=$folder/producer PERFETTO_CONSUMER_SOCK_NAME=$folder/consumer
"$perfetto/traced" 2>"$folder/traced.log" &
for _ in {1..500}; do
    [ ! -S "$folder/consumer" ] || break
    sleep 0.01
done
"$perfetto/perfetto" --txt --config - --out "$folder/trace.pftrace" 2>"$folder/perfetto.log" <<CONFIG &
buffers { size_kb: 65536 }
data_sources { config { name: "track_event" track_event_config { disabled_categories: "off" } } }
data_sources { config { name: "com.example.packets" } }
CONFIG
recorded=$(TRACEZERO_SYSTEM=1 cargo bench --locked --package tracezero --bench instructions)
echo "$recorded"
kill -INT %2
wait %2
# The size of times depends on the clock, so an event may differ by an instruction or two. The end of
# a chunk takes less than in process, where it copies the chunk.
paste <(echo "$plain") <(echo "$recorded") | awk '
    NR == 1 { next }
    $2 ~ /^[0-9]+$/ && $5 > $2 + 2 { print $1 " takes more instructions while a daemon records"; failed = 1 }
    /thousand/ && $5 >= $2 { print "the end of a chunk is not cheaper than in process"; failed = 1 }
    { rows++ }
    END { exit failed || rows < 10 }'
# The events of the bench are in the trace.
[ "$(wc -c <"$folder/trace.pftrace")" -gt 100000 ]
cargo bench --locked --package tracezero --bench read_instructions
cargo bench --locked --package tracezero --bench layer_instructions
