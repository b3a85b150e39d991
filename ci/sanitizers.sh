#!/usr/bin/env bash
# Runs tests under sanitizers. AddressSanitizer: the tests of protozero, and of the SDK's modules
# that handle shared memory. ThreadSanitizer: the SDK's tests in which threads share memory.
set -euo pipefail
cd "$(dirname "$0")/.."

# Sanitizers are unstable options; this variable allows them in a stable compiler.
export RUSTC_BOOTSTRAP=1
# If a target is named, the options do not apply to build scripts and macros.
target=$(rustc --version --verbose | sed -n 's/^host: //p')

export RUSTFLAGS="-Zsanitizer=address"
cargo test --locked --target "$target" --package protozero --lib --tests
cargo test --locked --target "$target" --lib \
    --package tracezero-core --package tracezero-producer --package tracezero-track-event
cargo test --locked --target "$target" --package tracezero-service --lib -- --skip scenarios

# Without `-Cunsafe-allow-abi-mismatch`, the compiler does not link the standard library, which is
# not instrumented.
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan-suppressions.txt"
cargo test --locked --target "$target" --lib \
    --package tracezero-core --package tracezero-producer --package tracezero-track-event
cargo test --locked --target "$target" --package tracezero-service --lib -- central_buffer
