#!/usr/bin/env bash
# Packages everything that will be published, and builds and runs three users of the packages alone:
# a quick start, a library, and a program with a schema of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
folder=$root/target/package-check
rm -rf "$folder/tree"
mkdir -p "$folder/tree"
git ls-files -z -- Cargo.toml Cargo.lock LICENSE README.md build.rs examples protozero protozero-codegen sdk benches tests |
    tar --create --null --files-from=- | tar --extract --directory "$folder/tree"
# Lets Cargo package all of them together.
sed -i 's/^publish = false$/publish = true/' "$folder/tree/Cargo.toml"

packages=(protozero protozero-codegen)
for manifest in sdk/Cargo.toml sdk/*/Cargo.toml; do
    # A workspace of its own, which `ci/query.sh` builds.
    [ "$manifest" != sdk/query/Cargo.toml ] || continue
    packages+=("$(sed -n 's/^name = "\(.*\)"$/\1/p' "$manifest" | head -n 1)")
done
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
rm -rf "$folder/packaged"
cargo package --offline --quiet --no-verify --allow-dirty --manifest-path "$folder/tree/Cargo.toml" \
    --target-dir "$folder/packaged" "${packages[@]/#/--package=}"

rm -rf "$folder/packages"
mkdir -p "$folder/packages"
patches=""
for package in "${packages[@]}"; do
    crate=$(basename "$folder/packaged/package/$package"-[0-9]*.crate .crate)
    # Sets new file times: the times in a package never change, so Cargo would use its older build.
    tar --extract --touch --directory "$folder/packages" --file "$folder/packaged/package/$crate.crate"
    mv "$folder/packages/$crate" "$folder/packages/$package"
    [ -f "$folder/packages/$package/LICENSE" ] || { echo "$package has no LICENSE" >&2; exit 1; }
    [ -f "$folder/packages/$package/README.md" ] || { echo "$package has no README.md" >&2; exit 1; }
    patches+="$package = { path = \"$folder/packages/$package\" }"$'\n'
done

# user <name> <dependencies>: builds from the packages and runs a program whose source is in its
# folder already.
user() {
    local user=$folder/users/$1
    printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n%s\n\n[patch.crates-io]\n%s' \
        "$1" "$2" "$patches" >"$user/Cargo.toml"
    # The profile of the workspace, so that common dependencies are built once.
    printf '\n[profile.dev]\ndebug = "line-tables-only"\n\n[profile.dev.package."*"]\ndebug = false\n' >>"$user/Cargo.toml"
    echo "--- $1"
    (cd "$user" && CARGO_TARGET_DIR=$target cargo run --offline --quiet)
}

rm -rf "$folder/users"
mkdir -p "$folder/users"/{quick_start,library,own_schema}/src "$folder/users/own_schema/protos"
cp examples/quick_start.rs "$folder/users/quick_start/src/main.rs"
user quick_start '[dependencies]
tracezero = "0.1"'
cp examples/library.rs "$folder/users/library/src/main.rs"
user library '[dependencies]
tracezero = "0.1"
tracezero-events = "0.1"'
cp examples/data_source.rs "$folder/users/own_schema/src/main.rs"
cp examples/protos/render.proto "$folder/users/own_schema/protos/"
cat >"$folder/users/own_schema/build.rs" <<'EOF'
fn main() -> Result<(), protozero_codegen::Error> {
    protozero_codegen::Config::new()
        .include("protos")
        .include(tracezero_schema::INCLUDE_DIR)
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .descriptor_sets()
        .compile(&["protos/render.proto"])
}
EOF
user own_schema '[dependencies]
protozero = "0.1"
tracezero = "0.1"

[build-dependencies]
protozero-codegen = "0.1"
tracezero-schema = "0.1"'
