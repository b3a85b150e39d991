#!/usr/bin/env bash
# Runs all fuzz targets, or those named as arguments, two at a time. Targets of the trace buffer, of
# the shared memory and of the daemon run for 60 s each, the others for 30 s; FUZZ_SECONDS sets
# another time. Needs cargo-fuzz, which ci/fetch.sh installs. To search for longer:
#   FUZZ_SECONDS=3600 ci/fuzz.sh decoder
# Failing inputs are left in fuzz/artifacts/<target>/. Reproduce one with
#   RUSTC_BOOTSTRAP=1 cargo fuzz run <target> fuzz/artifacts/<target>/<file>
# and add it as a test to the crate with the bug.
set -euo pipefail
cd "$(dirname "$0")/.."

# The sanitizer and the coverage that guides the fuzzer are unstable options of the compiler; this
# lets a stable one take them.
export RUSTC_BOOTSTRAP=1

fuzz_one() {
    local target=$1 seconds=30 log
    case $target in trace_buffer_* | shm_* | ipc_session) seconds=60 ;; esac
    seconds=${FUZZ_SECONDS:-$seconds}
    mkdir -p "fuzz/corpus/$target"
    local folders=("fuzz/corpus/$target")
    if [ -d "fuzz/seeds/$target" ]; then
        folders+=("fuzz/seeds/$target")
    fi
    local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048)
    if [ -f "fuzz/dictionaries/$target.txt" ]; then
        options+=(-dict="fuzz/dictionaries/$target.txt")
    fi
    # The sanitizer keeps the stack trace of each place that allocates. Nested inputs are decoded in so many
    # that these fill the memory within ten minutes, so of this target it keeps only the innermost function.
    case $target in protovm) export ASAN_OPTIONS=malloc_context_size=1 ;; esac
    log=$(mktemp)
    if ! cargo fuzz run "$target" "${folders[@]}" -- "${options[@]}" >"$log" 2>&1; then
        echo "== $target found something" >&2
        tail -n 100 "$log" >&2
        rm "$log"
        return 1
    fi
    echo "== $target, $seconds s: $(grep -E '^Done' "$log")"
    rm "$log"
}
export -f fuzz_one

cargo fuzz build
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo fuzz list)
fi
printf '%s\0' "${targets[@]}" | xargs --null --max-procs 2 --replace=TARGET bash -euo pipefail -c 'fuzz_one TARGET'
