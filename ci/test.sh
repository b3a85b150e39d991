#!/usr/bin/env bash
# Runs all tests, by the README's second command. The workspace's tests have all optional features
# on.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --workspace
