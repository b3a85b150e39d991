#!/usr/bin/env bash
# Checks that the documentation builds, and that its links are valid.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
