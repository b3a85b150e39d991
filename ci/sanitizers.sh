#!/usr/bin/env bash
# Tests under sanitizers: those of protozero, and those of the SDK's modules that handle shared memory, under
# AddressSanitizer; those of the SDK in which threads share memory under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

# Sanitizers are unstable options of the compiler; this lets a stable one take them.
export RUSTC_BOOTSTRAP=1
# With a target named, the options are not those of build scripts and macros.
target=$(rustc --version --verbose | sed -n 's/^host: //p')

export RUSTFLAGS="-Zsanitizer=address"
cargo test --locked --target "$target" --package protozero --lib --tests
cargo test --locked --target "$target" --lib \
    --package tracezero-core --package tracezero-producer --package tracezero-track-event
cargo test --locked --target "$target" --package tracezero-service --lib -- --skip scenarios

# Without the option, the compiler refuses to link the standard library, which has no instrumentation.
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan-suppressions.txt"
cargo test --locked --target "$target" --lib \
    --package tracezero-core --package tracezero-producer --package tracezero-track-event
cargo test --locked --target "$target" --package tracezero-service --lib -- central_buffer
