#!/usr/bin/env bash
# The source is laid out as rustfmt lays it out.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
