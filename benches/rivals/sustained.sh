#!/usr/bin/env bash
# Builds and runs `sustained`, with the arguments given: `--seconds 2 --threads 1,2 --sdk tracezero`.
#
# TRACEZERO=/path/to/checkout measures the SDK of another checkout, by the program of this one:
#   git worktree add ../before 410ddff
#   TRACEZERO=../before benches/rivals/sustained.sh --sdk tracezero
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
package=$here
target=${CARGO_TARGET_DIR:-$here/target}
locked=(--locked)

if [ -n "${TRACEZERO:-}" ]; then
    sdk=$(cd "$TRACEZERO/sdk" && pwd)
    # A copy whose path leads there. Its target folder is the same: the rivals are built already.
    package=$(mktemp -d)
    trap 'rm -rf "$package"' EXIT
    cp -r "$here"/{Cargo.toml,Cargo.lock,src,benches} "$package"
    sed -i "s|path = \"../../sdk\"|path = \"$sdk\"|" "$package/Cargo.toml"
    locked=()
    echo "The SDK of $(git -C "$TRACEZERO" log -1 --format='%h %s')"
fi

cargo build --release --quiet "${locked[@]}" --bin sustained \
    --manifest-path "$package/Cargo.toml" --target-dir "$target"
"$target/release/sustained" "$@"
