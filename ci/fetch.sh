#!/usr/bin/env bash
# Downloads what the lock files name, and installs the tools that other scripts use: cargo-fuzz,
# valgrind for its Callgrind, and chromium for the page of `tracezero view`. Every other script works
# offline afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fetch --locked
cargo fetch --locked --manifest-path fuzz/Cargo.toml
cargo fetch --locked --manifest-path tests/off/Cargo.toml

if ! command -v cargo-fuzz >/dev/null; then
    cargo install --locked cargo-fuzz
fi
# Debian's packages of these programs have their names.
for program in valgrind chromium; do
    if command -v "$program" >/dev/null; then
        continue
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "$program is missing: run 'apt-get install $program'" >&2
        exit 1
    fi
    apt-get update
    apt-get install --yes --no-install-recommends "$program"
done
