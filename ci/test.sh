#!/usr/bin/env bash
# All tests: the README's second command.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --workspace

# What is optional: compression needs a C compiler, which linking needs anyway.
cargo test --locked --package tracezero --features text-config,deflate,zstd --lib --test config_text
