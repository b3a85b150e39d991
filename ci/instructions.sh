#!/usr/bin/env bash
# Checks that no kind of field and no way to record takes more instructions than before. Needs
# valgrind with Callgrind, which ci/fetch.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench --locked --package protozero --bench instructions
cargo bench --locked --package tracezero --bench instructions
cargo bench --locked --package tracezero --bench read_instructions
cargo bench --locked --package tracezero --bench layer_instructions
