#!/usr/bin/env bash
# All tests: the README's second command. In the workspace's tests all optional features are on.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --workspace
