#!/usr/bin/env bash
# What libraries depend on builds with the oldest compiler that it promises: that of Debian 13, which `fetch.sh` has put
# into a folder.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTC=$PWD/target/rustc-1.85/rustc
"$RUSTC" --version
# Another compiler than the rest of the folder is built with.
export CARGO_TARGET_DIR=target/rustc-1.85/target
cargo check --locked --package tracezero-events
