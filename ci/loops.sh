# Starts busy loops beside a check, two per core. For use in scripts: `source ci/loops.sh`.
# shellcheck shell=bash

loops=()

start_loops() {
    local i n
    for ((i = 0; i < 2 * $(nproc); i++)); do
        # Checks regularly whether the script still exists, so that the loop ends if the script is
        # killed.
        (
            trap - EXIT
            while kill -0 $$ 2>/dev/null; do
                for ((n = 0; n < 100000; n++)); do :; done
            done
        ) &
        loops+=($!)
    done
}

stop_loops() {
    if ((${#loops[@]})); then
        kill "${loops[@]}" 2>/dev/null || true
    fi
    loops=()
}
