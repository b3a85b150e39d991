#!/usr/bin/env bash
# usage: ci/release.sh COMMIT
#
# Checks what a release needs besides `.ci/run`: that dependencies have allowed licenses and come from the registry,
# that the packages build alone, and with the oldest dependencies that they allow, and that the version numbers fit the
# changes of the interface since COMMIT (the last release). Not part of `.ci/run`, because it installs two
# tools into `target/tools` and compiles dependencies that nothing else needs. Uses the network for the registry.
set -euo pipefail
cd "$(dirname "$0")/.."
baseline=${1:?the commit of the last release}

root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/tools
for tool in cargo-deny@0.20.2 cargo-semver-checks@0.51.0; do
    [ -x "$tools/bin/${tool%@*}" ] || cargo install --quiet --locked --root "$tools" "$tool"
done
export PATH=$tools/bin:$PATH

echo "--- licenses and sources"
for package in protozero protozero-codegen sdk sdk/events sdk/tool; do
    cargo deny --manifest-path "$package/Cargo.toml" --config deny.toml check bans licenses sources
done

echo "--- packages"
ci/package.sh

echo "--- oldest dependencies"
# The packages as they are published, as one workspace: only its members' own dependencies are the oldest.
oldest=$root/target/package-check/oldest
rm -rf "$oldest"
cp -r target/package-check/packages "$oldest"
rm -f "$oldest"/*/Cargo.lock
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for package in "$oldest"/*/; do
        package=$(basename "$package")
        printf '%s = { path = "%s" }\n' "$package" "$package"
        # Dependencies of tests do not reach users, and would ask for newer ones.
        sed -i '/^\[dev-dependencies/,/^$/d' "$oldest/$package/Cargo.toml"
    done
} >"$oldest/Cargo.toml"
(
    cd "$oldest"
    RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
    cargo check --quiet --workspace --all-features --target-dir "$target/oldest"
)

echo "--- interface compared with $baseline"
compared=()
for folder in protozero protozero-codegen sdk sdk/events sdk/events-core sdk/reader sdk/crash; do
    # A package that is newer has no interface to keep.
    if git cat-file -e "$baseline:$folder/Cargo.toml"; then
        compared+=(--package "$(sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/Cargo.toml" | head -n 1)")
    fi
done
cargo semver-checks --baseline-rev "$baseline" "${compared[@]}"

echo "--- ready. Set 'publish' in Cargo.toml, then: cargo publish --workspace"
