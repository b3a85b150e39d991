#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS (default 60), or only those named as arguments.
#
# Needs cargo-fuzz (`cargo install --locked cargo-fuzz`). To hunt for longer:
#   FUZZ_SECONDS=3600 ci/fuzz.sh decoder
# What it finds is left in fuzz/artifacts/<target>/; reproduce with
#   RUSTC_BOOTSTRAP=1 cargo fuzz run <target> fuzz/artifacts/<target>/<file>
# and keep it as a test of the crate that is at fault.
set -euo pipefail
cd "$(dirname "$0")/.."

# The sanitizer and the coverage that guides the fuzzer are unstable options of the compiler; this
# lets a stable one take them.
export RUSTC_BOOTSTRAP=1

seconds=${FUZZ_SECONDS:-60}
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo fuzz list)
fi

for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    mkdir -p "fuzz/corpus/$target"
    seeds=()
    if [ -d "fuzz/seeds/$target" ]; then
        seeds=("fuzz/seeds/$target")
    fi
    options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048)
    if [ -f "fuzz/dictionaries/$target.txt" ]; then
        options+=(-dict="fuzz/dictionaries/$target.txt")
    fi
    cargo fuzz run "$target" "fuzz/corpus/$target" "${seeds[@]}" -- "${options[@]}"
done
