#!/usr/bin/env bash
# usage: ci/perfetto_uses.sh PROGRAMS DAEMON RESULTS
#
# Uses the command `perfetto` in 55 ways, with one daemon. PROGRAMS is the folder with Perfetto's
# programs, DAEMON the command line of the daemon. Writes into the folder RESULTS, for each use, a file
# with the exit codes, the standard error and what the traces have. `ci/interop.sh` compares the
# results of two daemons, so whatever differs from run to run is left out.
set -euo pipefail

programs=$(realpath "$1")
read -ra daemon_command <<<"$2"
mkdir -p "$3"
results=$(realpath "$3")

folder=$(mktemp -d)
cd "$folder"
export PERFETTO_PRODUCER_SOCK_NAME=$folder/producer.sock PERFETTO_CONSUMER_SOCK_NAME=$folder/consumer.sock
# Children that live on if this script fails.
children=()
finish() {
    for child in "${children[@]}"; do
        kill -KILL "$child" 2>/dev/null || true
    done
    cd /
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

perfetto() { "$programs/perfetto" "$@"; }

# Waits until a command succeeds, for at most 20 s.
until_true() { # until_true <command>...
    for _ in {1..400}; do
        "$@" >/dev/null 2>&1 && return
        sleep 0.05
    done
    echo "this has not happened: $*" >&2
    return 1
}

"${daemon_command[@]}" 2>daemon.log &
children+=($!)
# A socket is there before the daemon listens at it.
until_true perfetto --query

# A program with 1,000 slices. It begins when the first session records it.
producer=
producer_input=
start_producer() {
    mkfifo "$use.in"
    exec {producer_input}<>"$use.in"
    "$programs/sdk_producer" 1 1000 wait <"$use.in" >"$use.producer" 2>/dev/null &
    producer=$!
    children+=("$producer")
    until_true knows_producer
}
knows_producer() { perfetto --query | grep -q '^track_event'; }
knows_no_producer() { ! knows_producer; }
producer_is_done() { grep -q done "$use.producer"; }
end_producer() {
    echo >&"$producer_input"
    exec {producer_input}>&-
    wait "$producer"
    until_true knows_no_producer
}
has_no_session() { perfetto --query | grep -q '^Tracing sessions: 0'; }

# Begins a use. What follows is appended to its result.
use=
begin() { # begin <name>
    use=$1
    result=$results/$use
    : >"$result"
}

say() { echo "$*" >>"$result"; }

# Appends what was written to a log, without places in the source, times, sizes and paths.
said() { # said <file>
    sed -e 's/\x1b\[[0-9;]*m//g' \
        -e 's/^\[[0-9.: ]*\] *//' \
        -e 's/[a-z_]*\.cc:[0-9]* *//' \
        -e "s#$folder#FOLDER#g" \
        -e 's/[0-9]* bytes/N bytes/' \
        -e '/^ *$/d' "$1" >>"$result"
}

# Runs `perfetto` to its end. Appends its exit code and what it says.
run() { # run <argument>...
    local code=0
    timeout --signal=INT 20 "$programs/perfetto" "$@" 2>"$use.err" || code=$?
    say "exit code $code"
    said "$use.err"
}

# Starts `perfetto`.
command=
start() { # start <argument>...
    # By default, the input of such a process is empty.
    timeout --foreground --signal=KILL 60 "$programs/perfetto" "$@" <&0 2>"$use.err" &
    command=$!
    children+=("$command")
}

ended() {
    local code=0
    wait "$command" || code=$?
    say "exit code $code"
    said "$use.err"
}

# Runs `perfetto` until it has started another process in the background.
pid=
start_background() { # start_background <argument>...
    pid=$(perfetto "$@" 2>"$use.err") || say "exit code $?"
    [ -z "$pid" ] || children+=("$pid")
    said "$use.err"
}

# Appends what a trace has.
query() { # query <trace> <query>
    "$programs/trace_processor_shell" -Q "$2" "$1" 2>query.log >>"$result" || cat query.log >>"$result"
}
trace() { # trace <trace>
    if [ ! -s "$1" ]; then
        say "no trace"
        return
    fi
    query "$1" 'select name, count() as slices, sum(dur < 0) as unfinished from slice group by name'
    query "$1" "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    query "$1" "select distinct name from metadata order by name"
}

config='buffers { size_kb: 4096 } data_sources { config { name: "track_event" } }'
# The same in binary form.
printf '\x0a\x03\x08\x80\x20\x12\x0f\x0a\x0d\x0a\x0btrack_event' >config.bin
echo "$config" >config.txt
echo "$config duration_ms: 1500" >timed.txt

records() { # records <name> <argument>...: until the producer is done and SIGINT comes
    begin "$1"
    shift
    start_producer
    start "$@"
    until_true producer_is_done
    kill -INT "$command"
    ended
    end_producer
}

records text_file --txt -c config.txt -o a.pftrace
trace a.pftrace
records text_stdin --txt -c - -o a.pftrace <config.txt
trace a.pftrace
records binary_file -c config.bin -o a.pftrace
trace a.pftrace
records binary_stdin -c - -o a.pftrace <config.bin
trace a.pftrace
records to_stdout --txt -c config.txt -o - >stdout.pftrace
trace stdout.pftrace
records ring --txt -c - -o a.pftrace <<<'buffers { size_kb: 4 } data_sources { config { name: "track_event" } }'
query a.pftrace "select name from stats where name = 'traced_buf_bytes_overwritten' and value > 0"
records compressed --txt -c - -o a.pftrace <<<"$config compression_type: COMPRESSION_TYPE_DEFLATE"
trace a.pftrace
records two_buffers --txt -c - -o a.pftrace <<<'buffers { size_kb: 64 } buffers { size_kb: 1024 name: "large" }
    data_sources { config { name: "track_event" target_buffer_name: "large" } }'
trace a.pftrace
records write_into_file --txt -c - -o a.pftrace <<<"$config write_into_file: true file_write_period_ms: 200 flush_period_ms: 200"
trace a.pftrace
records attribute --txt -c config.txt -o a.pftrace --add-attribute 'who=me'
trace a.pftrace

begin duration
start_producer
run --txt -c timed.txt -o a.pftrace
trace a.pftrace
end_producer

begin write_into_file_for_a_duration
start_producer
run --txt -c - -o a.pftrace <<<"$config duration_ms: 1500 write_into_file: true file_write_period_ms: 100"
trace a.pftrace
end_producer

begin file_size_limit
start_producer
run --txt -c - -o a.pftrace <<<"$config duration_ms: 10000 write_into_file: true file_write_period_ms: 100 max_file_size_bytes: 4096"
query a.pftrace 'select count() < 1000 as has_fewer from slice'
end_producer

begin terminated
start_producer
start --txt -c config.txt -o a.pftrace
until_true producer_is_done
kill -TERM "$command"
ended
end_producer
trace a.pftrace

begin light_configuration
run -t 1s -b 4mb -o a.pftrace sched/sched_switch
trace a.pftrace

begin no_clobber
run --txt -c timed.txt -o a.pftrace --no-clobber

begin background
start_producer
start_background --txt -c timed.txt -o background.pftrace --background
case $pid in *[!0-9]* | '') say "no pid: $pid" ;; esac
until_true test -s background.pftrace
until_true has_no_session
trace background.pftrace
end_producer

begin background_wait
start_producer
start_background --txt -c config.txt -o background.pftrace --background-wait
until_true producer_is_done
kill -TERM "$pid"
until_true has_no_session
until_true test ! -d "/proc/$pid"
trace background.pftrace
end_producer

begin background_wait_without_producers
start_background --txt -c config.txt -o background.pftrace --background-wait
kill -TERM "$pid"
until_true has_no_session

begin background_wait_with_bad_config
start_background --txt -c - -o background.pftrace --background-wait <<<'duration_ms: 1000'

begin notify_fd
start_producer
mkfifo notify
perfetto --txt -c timed.txt -o a.pftrace --notify-fd 3 3>notify 2>"$use.err" &
command=$!
children+=("$command")
od -An -tx1 notify >>"$result"
ended
trace a.pftrace
end_producer

begin detach
start_producer
run --txt -c - --detach=key -o detached.pftrace <<<"$config write_into_file: true file_write_period_ms: 100"
until_true producer_is_done
run --is_detached=key
run --is_detached=other
run --attach=other
run --attach=key --stop
trace detached.pftrace
run --is_detached=key
end_producer

# `--is_detached` attaches the session for a moment. A command that attaches it meanwhile fails.
is_attached() {
    kill -0 "$command" || start --attach=key
    ! perfetto --is_detached=key
}
begin detach_and_attach
start_producer
run --txt -c - --detach=key -o detached.pftrace <<<"$config write_into_file: true file_write_period_ms: 100"
start --attach=key
until_true producer_is_done
# A signal before it has attached would make it wait for ever.
until_true is_attached
kill -INT "$command"
ended
trace detached.pftrace
end_producer

begin detach_same_key_twice
run --txt -c - --detach=key -o detached.pftrace <<<"$config write_into_file: true"
run --txt -c - --detach=key -o other.pftrace <<<"$config write_into_file: true"
run --attach=key --stop

begin detached_until_its_end
start_producer
run --txt -c - --detach=key -o detached.pftrace <<<"$config write_into_file: true duration_ms: 1000"
until_true has_no_session
run --is_detached=key
trace detached.pftrace
end_producer

begin query
start_producer
start --txt -c - -o a.pftrace <<<"$config unique_session_name: \"a session\""
until_true producer_is_done
# Without versions, and what depends on the time and the process.
perfetto --query | sed -e '/^Service:/d' -e 's/Perfetto v[^ ]*//' -e "s/\b$producer\b *\([0-9]\)/PID \1/" \
    -e 's/[0-9][0-9]:[0-9][0-9]:[0-9][0-9]/TIME/' >>"$result" || say "exit code $?"
kill -INT "$command"
ended
end_producer

begin query_raw
perfetto --query-raw >raw || say "exit code $?"
[ -s raw ] && say "some bytes"

begin clone
start_producer
start --txt -c - -o a.pftrace <<<"$config unique_session_name: \"a_name\" bugreport_score: 1"
until_true producer_is_done
# Another error would be written over.
original=$use.err
cp "$use.err" original.err
id=$(perfetto --query | awk '/a_name/ { print $1 }')
[ -n "$id" ] || say "no id"
use=clone.by_id
run --clone "$id" -o clone.pftrace
trace clone.pftrace
use=clone.by_name
run --clone-by-name a_name -o clone.pftrace
trace clone.pftrace
use=clone.by_other_name
run --clone-by-name another -o clone.pftrace
use=clone.by_other_id
run --clone 12345 -o clone.pftrace
use=clone.for_bugreport
run --clone "$id" --clone-for-bugreport -o clone.pftrace
trace clone.pftrace
use=clone
kill -INT "$command"
wait "$command" || say "exit code $?"
said "$original"
trace a.pftrace
end_producer

triggers() { # triggers <mode> <more>
    echo "$config trigger_config { trigger_mode: $1 trigger_timeout_ms: ${2-60000} triggers { name: \"now\" stop_delay_ms: 1000 } }"
}
activate() {
    local code=0
    perfetto --txt -c - 2>activate.err <<<'activate_triggers: "now"' || code=$?
    say "activated with exit code $code"
    said activate.err
}
is_configured() { perfetto --query | grep -q CONFIGURED; }
has_started() { [ "$(perfetto --query | sed -n 's/.*(started: \([0-9]*\)).*/\1/p')" = "$1" ]; }
is_started() { perfetto --query | grep -q STARTED; }

begin start_trigger
start_producer
start --txt -c - -o a.pftrace <<<"$(triggers START_TRACING)"
until_true is_configured
activate
ended
trace a.pftrace
end_producer

begin start_trigger_that_does_not_come
run --txt -c - -o nothing.pftrace <<<"$(triggers START_TRACING 1000)"
trace nothing.pftrace

begin stop_trigger
start_producer
start --txt -c - -o a.pftrace <<<"$(triggers STOP_TRACING)"
until_true producer_is_done
activate
ended
trace a.pftrace
end_producer

begin stop_trigger_that_does_not_come
run --txt -c - -o nothing.pftrace <<<"$(triggers STOP_TRACING 1000)"
trace nothing.pftrace

begin clone_trigger
start_producer
start --txt -c - -o cloned.pftrace <<<"$(triggers CLONE_SNAPSHOT)"
until_true producer_is_done
activate
until_true test -s cloned.pftrace.0
until_true grep -q 'Wrote.*cloned.pftrace.0' "$use.err"
kill -INT "$command"
ended
trace cloned.pftrace.0
end_producer

begin trigger_for_nobody
activate

# Each is refused.
number=0
while read -r bad; do
    number=$((number + 1))
    begin "bad_config_$number"
    say "$bad"
    run --txt -c - -o bad.pftrace <<<"$bad"
    until_true has_no_session
done <<CONFIGS
buffers { size_kb: 0 } data_sources { config { name: "track_event" } }
buffers { size_kb: 4194304 } data_sources { config { name: "track_event" } }
$config duration_ms: 700000000
buffers { size_kb: 64 } data_sources { config { name: "track_event" target_buffer: 1 } }
buffers { size_kb: 64 } data_sources { config { name: "track_event" target_buffer_name: "none" } }
buffers { size_kb: 64 name: "a" } buffers { size_kb: 64 name: "a" }
buffers { size_kb: 64 } buffers { size_kb: 64 name: "b" } buffers { size_kb: 64 } data_sources { config { name: "track_event" target_buffer: 2 target_buffer_name: "b" } }
$config trigger_config { trigger_mode: START_TRACING triggers { name: "a" } }
$config trigger_config { trigger_mode: STOP_TRACING triggers { name: "a" } }
$config trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 700000000 triggers { name: "a" } }
$config trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 1000 triggers { name: "a" } triggers { name: "a" } }
$config trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 1000 triggers { name: "a" } } duration_ms: 1000
$config trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 triggers { name: "a" } } write_into_file: true
$config trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 triggers { name: "a" } } write_into_file: true
$config trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 1000 use_clone_snapshot_if_available: true triggers { name: "a" } }
$config bugreport_filename: "a/b"
nonsense
buffers { size_kb: "a" }
CONFIGS

begin too_many_buffers
printf 'buffers { size_kb: 4 }\n%.0s' {1..129} >many.txt
run --txt -c many.txt -o bad.pftrace

begin sixth_session
for number in {1..5}; do
    start --txt -c config.txt -o "$number.pftrace"
    until_true has_started "$number"
done
pids=("${children[@]: -5}")
run --txt -c config.txt -o bad.pftrace
for command in "${pids[@]}"; do
    kill -INT "$command"
    wait "$command" || say "exit code $?"
done

begin same_name
start --txt -c - -o a.pftrace <<<"$config unique_session_name: \"unique\""
until_true is_started
use=same_name.again
run --txt -c - -o bad.pftrace <<<"$config unique_session_name: \"unique\""
use=same_name
kill -INT "$command"
ended

uses=("$results"/*)
if ((${#uses[@]} != 55)); then
    echo "there are ${#uses[@]} results instead of 55; correct the number in the scripts and CONTRIBUTING.md" >&2
    exit 1
fi
