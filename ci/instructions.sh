#!/usr/bin/env bash
# No kind of field takes more instructions than before. Needs valgrind, of which it uses Callgrind;
# installs it where it may.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "valgrind is missing: run 'apt-get install valgrind'" >&2
        exit 1
    fi
    apt-get update
    apt-get install --yes --no-install-recommends valgrind
fi

cargo bench --locked --package protozero --bench instructions
