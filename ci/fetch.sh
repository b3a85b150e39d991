#!/usr/bin/env bash
# Downloads what the lock files name, and installs the tools that other scripts use: cargo-fuzz, and
# valgrind for its Callgrind. Every other script works offline afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fetch --locked
cargo fetch --locked --manifest-path fuzz/Cargo.toml
cargo fetch --locked --manifest-path tests/off/Cargo.toml

if ! command -v cargo-fuzz >/dev/null; then
    cargo install --locked cargo-fuzz
fi
if ! command -v valgrind >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "valgrind is missing: run 'apt-get install valgrind'" >&2
        exit 1
    fi
    apt-get update
    apt-get install --yes --no-install-recommends valgrind
fi
