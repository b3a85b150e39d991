#!/usr/bin/env bash
# Checks that the command `tracezero` accepts the traces of all examples, compresses and merges them
# without a loss, and reads a large trace with little memory.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/memory.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cargo build --locked --release --examples
cargo build --locked --release --package tracezero-cli --bin tracezero --example many_spans
binaries=$(realpath "${CARGO_TARGET_DIR:-target}")/release
for source in examples/*.rs examples/*/main.rs; do
    name=${source#examples/}
    name=${name%/main.rs}
    name=${name%.rs}
    (cd "$folder" && "$binaries/examples/$name" >/dev/null)
done

echo "--- check"
"$binaries/tracezero" check "$folder"/*.pftrace | grep -v ': note: '

echo "--- compress, decompress"
for trace in "$folder"/*.pftrace; do
    packets() { "$binaries/tracezero" cat "$1" | grep -v '^# packet'; }
    for packing in "" --zstd; do
        # shellcheck disable=SC2086 # Empty: no argument.
        "$binaries/tracezero" compress $packing "$trace" -o "$folder/packed"
        "$binaries/tracezero" decompress "$folder/packed" -o "$folder/unpacked"
        cmp "$trace" "$folder/unpacked"
        if ! cmp <(packets "$trace") <(packets "$folder/packed"); then
            echo "$trace $packing: the packed packets are others" >&2
            exit 1
        fi
    done
done

echo "--- merge"
"$binaries/tracezero" merge "$folder"/*.pftrace -o "$folder/merged"
"$binaries/tracezero" check "$folder/merged" | grep -v ': note: '

echo "--- a large trace"
"$binaries/examples/many_spans" 200 "$folder/many_spans"
(
    ulimit -v $((256 * 1024)) # KiB
    "$binaries/tracezero" summary "$folder/many_spans"
    "$binaries/tracezero" check "$folder/many_spans"
)

echo "--- export"
peak=$(peak_mib "$folder/log" "$binaries/tracezero" export parquet "$folder/many_spans" -o "$folder/lake")
cat "$folder/log"
slices=$(sed -n 's/.* \([0-9]*\) slices.*/\1/p' "$folder/log")
bytes=$(find "$folder/lake/slice" -name '*.parquet' -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
echo "$peak MiB, $bytes bytes for $slices slices"
((peak < 256 && bytes <= 8 * slices))
# Another export changes nothing, and joined files have the rows of all traces.
"$binaries/tracezero" export parquet "$folder/many_spans" -o "$folder/lake" 2>&1 | grep '1 trace in the lake already'
"$binaries/tracezero" export parquet "$folder"/*.pftrace -o "$folder/lake"
"$binaries/tracezero" lake compact "$folder/lake"

echo "--- units of the service manager"
if command -v systemd-analyze >/dev/null; then
    units=sdk/tool/systemd
    mkdir "$folder/machine" "$folder/user" "$folder/root" "$folder/root/etc"
    # The program of a unit must exist.
    installed() { sed "s#^ExecStart=[^ ]*#ExecStart=$binaries/tracezero#" "$1" >"$2"; }
    installed "$units/tracezero-daemon.service" "$folder/machine/tracezero-daemon.service"
    installed "$units/user/tracezero-daemon.service" "$folder/user/tracezero-daemon.service"
    status=0
    {
        systemd-analyze --man=no verify "$folder/machine/tracezero-daemon.service" || status=$?
        XDG_RUNTIME_DIR=$folder systemd-analyze --user --man=no verify "$folder/user/tracezero-daemon.service" || status=$?
    } >"$folder/faults" 2>&1
    # An unknown key is a warning, with status 0.
    if ((status != 0)) || [ -s "$folder/faults" ]; then
        cat "$folder/faults" >&2
        echo "systemd-analyze has found faults; its status is $status" >&2
        exit 1
    fi
    systemd-sysusers --root="$folder/root" "$PWD/$units/tracezero.sysusers.conf"
    grep -q '^tracezero:' "$folder/root/etc/group"
else
    echo "not checked: systemd-analyze is missing"
fi
