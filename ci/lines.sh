#!/usr/bin/env bash
# usage: ci/lines.sh [COMMIT]
#
# Prints the lines of code of the product by package, in COMMIT or in the working tree: the code in
# `src/` without blank lines, comments, tests and generated code.
set -euo pipefail
cd "$(dirname "$0")/.."

tree=.
if [ $# -gt 0 ]; then
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    git archive "$1" | tar -x -C "$tree"
fi

count() { # count <package>
    # Skips tests, which are in files of their own or in the module at the end of a file.
    find "$tree/$1/src" -name '*.rs' \
        ! -name tests.rs ! -name '*.*.rs' ! -path '*/schema/table.rs' ! -path '*/producer/testing.rs' ! -path '*/producer/src/testing.rs' ! -path '*/tests/*' ! -path '*scenarios/*' ! -name loom_models.rs ! -name '*_tests.rs' ! -name '*_data.rs' \
        -exec awk '
            FNR == 1 { is_test = 0 }
            /^mod tests \{/ { is_test = 1 }
            !is_test && !/^[[:space:]]*(\/\/|$)/ { lines++ }
            END { print lines + 0 }
        ' {} + | awk '{ sum += $1 } END { print sum + 0 }'
}

total=0
for package in protozero protozero-codegen sdk sdk/client sdk/config sdk/consumer sdk/core sdk/crash sdk/events sdk/events-core sdk/host sdk/ipc sdk/kernel sdk/lake sdk/probes sdk/producer sdk/protovm sdk/query sdk/service sdk/track-event sdk/macros sdk/reader sdk/tool; do
    # Older commits have fewer packages.
    [ -d "$tree/$package/src" ] || continue
    lines=$(count "$package")
    total=$((total + lines))
    printf '%7d  %s\n' "$lines" "$package"
done
printf '%7d  in all\n' "$total"
