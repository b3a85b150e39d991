#!/usr/bin/env bash
# All tests: the README's second command.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --workspace
