# Measures the memory of commands. To be sourced.

# usage: peak_mib LOG COMMAND..
#
# Runs a command, whose standard error goes to LOG. Prints its highest resident memory in MiB. Fails if the command does.
peak_mib() {
    local log=$1 pid peak=0 now
    shift
    "$@" 2>"$log" >/dev/null &
    pid=$!
    # The kernel keeps the highest value, so looking now and then is enough.
    while now=$(awk '/^VmHWM/ { print int($2 / 1024) + 1 }' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
        peak=$now
        sleep 0.1
    done
    wait "$pid" || {
        cat "$log" >&2
        return 1
    }
    echo "$peak"
}
