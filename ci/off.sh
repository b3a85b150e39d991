#!/usr/bin/env bash
# Checks programs built with `--cfg tracezero_off`: macros, the attribute and data sources cause no
# warning, evaluate nothing and record nothing, and a function full of them has the same
# instructions as without them.
set -euo pipefail
cd "$(dirname "$0")/.."

# Shares the target folder, so the dependencies of both workspaces are built once.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
package=(--locked --manifest-path tests/off/Cargo.toml)
# Tests handles of captures as libraries build them, without the feature `testing`.
cargo test --locked --package tracezero --test capture_handle

export RUSTFLAGS="--cfg tracezero_off"
cargo clippy --locked --package tracezero --package tracezero-events -- -D warnings
cargo clippy "${package[@]}" --all-targets -- -D warnings
cargo test "${package[@]}"
# Tests handles of captures with the feature `testing`, although nothing can be captured.
cargo test --locked --package tracezero --features testing --test capture_handle

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# instructions <example>: prints the instructions of its function, with labels as if it were the
# only one in its file.
instructions() {
    cargo rustc --quiet "${package[@]}" --release --example "$1" -- \
        -C codegen-units=1 --emit asm="$folder/$1.s"
    awk '/^[^ \t.][^ \t]*product_of_some[^ \t]*:/ { inside = 1; next }
         /^\.Lfunc_end/ { inside = 0 }
         inside' "$folder/$1.s" | sed -E 's/\.L([A-Z]+)[0-9]+_/.L\1_/g' >"$folder/$1.txt"
    if [ ! -s "$folder/$1.txt" ]; then
        echo "there is no function product_of_some in the assembly of $1" >&2
        exit 1
    fi
}
instructions traced
instructions plain
if grep tracezero "$folder/traced.txt"; then
    echo "a function whose trace points are off refers to tracezero" >&2
    exit 1
fi
diff "$folder/plain.txt" "$folder/traced.txt" || {
    echo "trace points that are off leave instructions behind" >&2
    exit 1
}
echo "trace points that are off leave no instruction behind"
