#!/usr/bin/env bash
# Builds the packages for libraries, and a library that uses every form of their macros, with the
# oldest supported compiler: Rust 1.85 of Debian 13, which `fetch.sh` has unpacked into a folder.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
export RUSTC=$root/target/rustc-1.85/rustc
if [ ! -x "$RUSTC" ]; then
    echo "there is no Rust 1.85 in target/rustc-1.85: run ci/fetch.sh" >&2
    exit 1
fi
"$RUSTC" --version

folder=$root/target/rustc-1.85/library
mkdir -p "$folder/src"
cat >"$folder/Cargo.toml" <<EOF
[package]
name = "library"
version = "0.0.0"
edition = "2021"

[workspace]

[dependencies]
tracezero-events = { path = "$root/sdk/events" }
EOF
cat >"$folder/src/lib.rs" <<'EOF'
#![deny(warnings)]

use std::error::Error;

use tracezero_events::{counter, enabled, end, instant, span};

pub fn all(path: &std::path::Path, numbers: &[u32], error: Box<dyn Error>) {
    let span = span!("library", "all", path, numbers, first = ?numbers[..1], %error, "a.b" = 1_u8);
    let _named = span!("library", format!("{} numbers", numbers.len()), error = %*error, ?path);
    instant!("library", "instant", list = vec![1, 2], text = "x"[..1]);
    counter!("library", "numbers", numbers.len());
    if enabled!("library") {
        end!(span, found = Some(numbers.len()),);
    }
}
EOF
# A folder of its own, because the rest is built with another compiler.
export CARGO_TARGET_DIR=$root/target/rustc-1.85/target
cargo check --offline --quiet --manifest-path "$folder/Cargo.toml"
