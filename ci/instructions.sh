#!/usr/bin/env bash
# No kind of field and no way to record takes more instructions than before. Needs valgrind, of which
# it uses Callgrind: ci/fetch.sh installs it.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench --locked --package protozero --bench instructions
cargo bench --locked --package tracezero --bench instructions
cargo bench --locked --package tracezero --bench read_instructions
cargo bench --locked --package tracezero --bench layer_instructions
