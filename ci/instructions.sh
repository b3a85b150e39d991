#!/usr/bin/env bash
# Checks that no kind of field and no way to record takes more instructions than before, and that
# events take as many with crash files as without. Needs valgrind with Callgrind, which ci/fetch.sh
# installs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench --locked --package protozero --bench instructions
plain=$(cargo bench --locked --package tracezero --bench instructions)
echo "$plain"
crash_safe=$(TRACEZERO_CRASH_SAFE=1 cargo bench --locked --package tracezero --bench instructions)
# A thousand events fill chunks, and a chunk costs a little more.
if ! diff <(grep -v thousand <<<"$plain") <(grep -v thousand <<<"$crash_safe"); then
    echo "events take other numbers of instructions with crash files" >&2
    exit 1
fi
cargo bench --locked --package tracezero --bench read_instructions
cargo bench --locked --package tracezero --bench layer_instructions
