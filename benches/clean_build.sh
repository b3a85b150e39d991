#!/usr/bin/env bash
# usage: benches/clean_build.sh [RUNS]
#
# Builds small programs from nothing, in release mode, in turn: one without dependencies, a quick start with tracezero, a
# library with tracezero-events, and a program with perfetto-recorder. Prints the median of the times of RUNS builds
# (three unless given) and the size of the stripped executables. Works offline after `ci/fetch.sh` and
# `cargo fetch --manifest-path benches/rivals/Cargo.toml`.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
runs=${1:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# program <name> <dependency> <source>
program() {
    mkdir -p "$folder/$1/src"
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n%s\n' \
        "$1" "$2" >"$folder/$1/Cargo.toml"
    printf '%s\n' "$3" >"$folder/$1/src/main.rs"
    (cd "$folder/$1" && cargo generate-lockfile --offline --quiet)
}
program empty "" 'fn main() { println!("{}", std::env::args().count()); }'
program quick_start "tracezero = { path = \"$root/sdk\" }" "$(cat examples/quick_start.rs)"
program library "tracezero-events = { path = \"$root/sdk/events\" }" \
    'fn main() { let _span = tracezero_events::span!("library", "main", args = std::env::args().count()); }'
program recorder 'perfetto-recorder = { version = "0.3", features = ["enable"] }' '
use perfetto_recorder::{ThreadTraceData, TraceBuilder, scope};

fn main() {
    perfetto_recorder::start().expect("a recording");
    {
        scope!("span", number = 7);
    }
    let mut trace = TraceBuilder::new().expect("a recording");
    trace.process_thread_data(&ThreadTraceData::take_current_thread());
    std::fs::write("recorder.pftrace", trace.encode_to_vec()).expect("a file");
}'

for ((run = 0; run < runs; run++)); do
    for name in empty quick_start library recorder; do
        rm -rf "$folder/$name/target"
        started=$(date +%s%N)
        (cd "$folder/$name" && CARGO_TARGET_DIR=target cargo build --offline --quiet --release)
        echo $((($(date +%s%N) - started) / 1000000)) >>"$folder/$name.ms"
    done
done
printf '%-12s %10s %18s\n' program 'build, ms' 'executable, bytes'
for name in empty quick_start library recorder; do
    strip -o "$folder/$name.stripped" "$folder/$name/target/release/$name"
    printf '%-12s %10d %18d\n' "$name" "$(sort -n "$folder/$name.ms" | sed -n "$(((runs + 1) / 2))p")" \
        "$(stat --format %s "$folder/$name.stripped")"
done
