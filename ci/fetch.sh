#!/usr/bin/env bash
# Downloads what Cargo.lock names. Every other script works offline afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fetch --locked
