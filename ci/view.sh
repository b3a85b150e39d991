#!/usr/bin/env bash
# Checks the page of `tracezero view` in Chromium: search, zoom, details, and no network requests.
set -euo pipefail
cd "$(dirname "$0")/.."

export CHROMIUM="${CHROMIUM:-chromium}"
if ! command -v "$CHROMIUM" >/dev/null; then
    echo "$CHROMIUM is missing: run 'apt-get install chromium', or name a browser in CHROMIUM" >&2
    exit 1
fi
cargo test --locked --package tracezero-cli --test browser -- --ignored --test-threads 2
