#!/usr/bin/env bash
# usage: PERFETTO_BIN=FOLDER PERFETTO_SDK=FOLDER ci/interop.sh
#
# Checks our processes with Perfetto's own programs, which a build of Perfetto puts into PERFETTO_BIN.
# PERFETTO_SDK has `perfetto.h` and `perfetto.cc`, the C++ library in two files, as in Perfetto's
# releases. Not part of `.ci/run`, because few machines have all of them. Takes ten minutes after the
# build, which takes six, and 2 GB in TMPDIR.
#
# 1. `stress_test` checks each packet of its six configurations, with Perfetto's producer and daemon,
#    with `tests/judge/examples/stress_producer.rs` in place of the producer, and with our daemon in
#    place of `traced`. Neither of ours may have more errors in any.
# 2. `traced` and `perfetto` record programs of the judge's tests. `trace_processor_shell` must find
#    all events, arguments, names of threads and fields of an own schema, and report no error.
# 3. Our daemon and `perfetto` record `sdk_producer`, which uses Perfetto's SDK. All slices must be
#    there, without an error. `sdk_producer` is `benches/rivals/src/bin/daemon/producer.cc`. Sessions
#    record it beside a program of ours, and after the daemon was started again. It is also killed at
#    100 random moments; KILLS says another number.
# 4. `ci/perfetto_uses.sh` uses the command `perfetto` in 55 ways with both daemons. Exit codes,
#    messages and traces must be the same, except for what is listed below.
set -euo pipefail

: "${PERFETTO_BIN:?the folder with traced, perfetto, stress_test, stress_producer and trace_processor_shell}"
: "${PERFETTO_SDK:?the folder with perfetto.h and perfetto.cc}"
folder=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon"
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
failed=0

perfetto=$folder/programs
mkdir "$perfetto"
for program in traced perfetto stress_test stress_producer trace_processor_shell; do
    [ -x "$PERFETTO_BIN/$program" ] || {
        echo "$PERFETTO_BIN/$program is missing: build it from Perfetto's source" >&2
        exit 1
    }
    ln -s "$(realpath "$PERFETTO_BIN/$program")" "$perfetto"
done
PERFETTO_SDK=$(realpath "$PERFETTO_SDK")
cd "$(dirname "$0")/.."

here=$PWD/benches/rivals target=$PWD/target/sdk
. benches/rivals/cpp_producer.sh
ln -s "$CPP_PRODUCER" "$perfetto/sdk_producer"

# Optimizes everything except the published schema, which would take many minutes.
cargo build --locked --release --package judge --package tracezero-cli \
    --example stress_producer --test system --bin tracezero \
    --config 'profile.release.package.perfetto_protos.opt-level = 0' \
    --message-format json-render-diagnostics >"$folder/built"
executable() { # executable <target>
    sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' "$folder/built"
}

stress() { # stress <name> <producer> <daemon>
    mkdir "$folder/$1"
    # It starts the programs beside its own file, so a link to it would not do.
    cp "$perfetto/stress_test" "$folder/$1"
    ln -s "$perfetto/perfetto" "$folder/$1"
    ln -s "$2" "$folder/$1/stress_producer"
    # Our program is a daemon if it is called so.
    ln -s "$3" "$folder/$1/traced"
    echo "--- stress_test with $1"
    TMPDIR=$folder/$1 "$folder/$1/stress_test" >"$folder/$1/results" 2>"$folder/$1/log" || {
        tail -n 20 "$folder/$1/log" >&2
        exit 1
    }
    rm "$folder/$1"/perfetto-stress-test/*/trace
}

errors_log() { # errors_log <name> <configuration>
    echo "$folder/$1/perfetto-stress-test/$2/errors.log"
}

# Counts the errors of a configuration by sequence. The sum of `stress_test` says little: if the
# buffer has overwritten the first packet of a sequence, or a packet was lost, `stress_test` reports
# all later packets of the sequence, since none has the counter that it expects. So lines whose
# counters are off by the same number are one error. A sequence that is not in the trace is one error.
#
# Perfetto's producer has one error per sequence wherever the session ends before all packets are
# written: its last packet repeats a counter, or is lost. In `stalls` the buffer also overwrites the
# first packets of each sequence, ours and theirs.
#
# `stress_test` kills `perfetto` if `traced` needs more than 30 s to read the buffer, so the trace is
# cut off. Then there are three more errors, and one for each missing sequence, in place of the one
# or two that Perfetto's producer has.
errors() { # errors <name> <configuration>
    tr -d '\0' <"$(errors_log "$1" "$2")" | awk '
        /counter mismatch for sequence/ {
            off_by = $NF - $(NF - 2)
            if (off_by != last[$6]) count++
            last[$6] = off_by
            next
        }
        /Trace threads mismatch/ { count += $5 > $8 ? $5 - $8 : $8 - $5; next }
        NF { count++ }
        END { print count + 0 }'
}

is_cut_off() { # is_cut_off <name> <configuration>
    grep -q "Consumer didn't quit in time" "$(errors_log "$1" "$2")"
}

packets() { # packets <name> <configuration>
    awk -v config="$2" '
        $1 == "Config:" { is_it = $2 == config }
        is_it && /^Num packets/ { print $4 }' "$folder/$1/results"
}

stress perfetto "$perfetto/stress_producer" "$perfetto/traced"
stress our-producer "$(executable stress_producer)" "$perfetto/traced"
stress our-daemon "$perfetto/stress_producer" "$(executable tracezero)"
table='%-12s %-14s %10s %10s\n'
printf "$table" configuration with errors packets
for config in simple backfills bursts heavy stalls xxl_packets; do
    theirs=$(errors perfetto "$config")
    # A trace that is cut off has fewer errors, since it lacks sequences. In `stalls` alone this is
    # usual: `traced` reads its buffer slowly. Whole, each of the 32 sequences has two errors.
    if [ "$config" = stalls ] && is_cut_off perfetto stalls; then
        theirs=64
    fi
    for name in perfetto our-producer our-daemon; do
        count=$(errors "$name" "$config")
        printf "$table" "$config" "$name" "$count" "$(packets "$name" "$config")"
        if is_cut_off "$name" "$config"; then
            echo "    the trace is cut off: the daemon took more than 30 s to read the buffer"
        fi
        if ((count > theirs)); then
            echo "$config: $name has more errors than Perfetto's own" >&2
            failed=1
        fi
    done
done

recording_failed() { # recording_failed <reason>
    cat "$folder"/{traced,perfetto}.log >&2
    echo "$1" >&2
    exit 1
}

# Records a program until it says `done`.
record() { # record <name> <data source> <daemon> <program>...
    local name=$1 source=$2
    echo "--- $name, recorded by perfetto"
    export PERFETTO_PRODUCER_SOCK_NAME=$folder/$name.producer PERFETTO_CONSUMER_SOCK_NAME=$folder/$name.consumer
    $3 2>"$folder/traced.log" &
    daemon=$!
    # A socket is there before the daemon listens at it.
    for _ in {1..100}; do
        "$perfetto/perfetto" --query >/dev/null 2>&1 && break
        sleep 0.1
    done
    shift 3
    "$perfetto/perfetto" --txt -c - -o "$folder/$name.pftrace" 2>"$folder/perfetto.log" \
        <<<"buffers { size_kb: 65536 } data_sources { config { name: \"$source\" } }" &
    local recording=$! word
    coproc program {
        TRACEZERO_TEST_PRODUCER=$name TRACEZERO_TEST_PRODUCER_NAME=$name exec "$@"
    }
    # The shell forgets these when the program has ended.
    local output=${program[0]} input=${program[1]} process=$program_PID
    until [ "${word:-}" = done ]; do
        read -r -u "$output" word _ || recording_failed "the program \"$name\" has ended before it was done"
    done
    kill -INT "$recording"
    wait "$recording" || recording_failed "perfetto has failed"
    echo >&"$input"
    wait "$process" || recording_failed "the program \"$name\" has failed"
    kill "$daemon"
    wait "$daemon" || true # ended by the signal
    daemon=
}

# Compares the result of a query with the lines of the standard input.
expect() { # expect <kind of program> <query>
    local found
    found=$("$perfetto/trace_processor_shell" -Q "$2" "$folder/$1.pftrace" 2>"$folder/query.log") || {
        cat "$folder/query.log" >&2
        exit 1
    }
    diff -u --label expected --label "found by: $2" - <(echo "${found//\"/}") || failed=1
}

expect_clean() { # expect_clean <kind of program>
    expect "$1" "select name, value from stats where severity in ('error', 'data_loss') and value > 0" <<<name,value
}

# A program of `tests/judge/tests/system/programs.rs`.
ours=("$(executable system)" programs::is_a_producer --exact --ignored --nocapture)

record spans track_event "$perfetto/traced" "${ours[@]}"
expect spans 'select name, count() as slices, sum(dur < 0) as unfinished from slice group by name' <<LINES
name,slices,unfinished
work,30000,0
LINES
expect spans 'select thread.name, count() as slices from slice
    join thread_track on thread_track.id = track_id join thread using (utid) group by thread.name' <<LINES
name,slices
worker 0,10000
worker 1,10000
worker 2,10000
LINES
# The sums are those of three times 0 to 9999, and of the halves.
expect spans 'select key, count() as args, sum(int_value) as ints, cast(sum(real_value) as int) as reals,
    min(string_value) as first, max(string_value) as last
    from slice join args using (arg_set_id) group by key' <<LINES
key,args,ints,reals,first,last
debug.half,30000,[NULL],74992500,[NULL],[NULL]
debug.index,30000,149985000,[NULL],[NULL],[NULL]
debug.on,30000,[NULL],[NULL],a thread,a thread
LINES
expect_clean spans

record samples com.example.samples "$perfetto/traced" "${ours[@]}"
# trace_processor knows these fields by the descriptors in the trace.
expect samples 'select name, key, count() as args, sum(int_value) as ints
    from slice join args using (arg_set_id) group by name, key' <<LINES
name,key,args,ints
sample,memory_sample.resident_kb,1000,1000
sample,memory_sample.virtual_kb,1000,499500
LINES
expect_clean samples

record sdk track_event "$(executable tracezero) daemon" "$perfetto/sdk_producer" 1 100000 wait
expect sdk 'select name, count() as slices, sum(dur < 0) as unfinished, sum(distinct int_value) as sum
    from slice join args using (arg_set_id) group by name' <<LINES
name,slices,unfinished,sum
work,100000,0,4999950000
LINES
expect_clean sdk

# Records `sdk_producer` beside a program of ours, starts the daemon again, and kills `sdk_producer` at
# random moments. What it has recorded must be in the trace.
PERFETTO_BIN=$perfetto TRACEZERO_TEST_DAEMON=tracezero TRACEZERO_SYSTEM_KILLS=${KILLS:-100} \
    "$(executable system)" --ignored --nocapture sdk:: || failed=1

# Writes the results of `ci/perfetto_uses.sh` with a daemon, without what differs for a reason.
uses() { # uses <name> <daemon>
    echo "--- the command perfetto with $1"
    ci/perfetto_uses.sh "$perfetto" "$2" "$folder/$1" 2>"$folder/$1.log" || {
        tail -n 5 "$folder/$1.log" >&2
        failed=1
    }
    # Our service writes neither the size of the machine's memory nor its time zone. It says when all
    # data sources have started also if the session was detached before, and its snapshots of clocks
    # are never invalid. Its reasons for a refusal are its own: they name the field, and what to do.
    sed -i -e '/^"system_ram_\(bytes\|gb\)"$/d' -e '/^"timezone_off_mins"$/d' \
        -e '/^"all_data_source_started_ns"$/d' -e '/^"invalid_clock_snapshots",/d' \
        -e 's/\(Service error: Failed to clone [^:]*:\) .*/\1 .../' \
        -e '/Failed to clone/!s/\(Service error:\) .*/\1 .../' "$folder/$1"/*
}
uses traced "$perfetto/traced"
uses tracezero "$(executable tracezero) daemon"
diff -ru "$folder/traced" "$folder/tracezero" || failed=1

((failed == 0)) && echo "All as expected."
