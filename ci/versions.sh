#!/usr/bin/env bash
# Checks a program with two versions of `tracezero` and two of `tracezero-events`: each session must
# have the events of both libraries. The second version is a copy of the tree, in which all packages
# have another version except `tracezero-events-core`: a registry would give both the same one.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
folder=$root/target/versions
rm -rf "$folder/other"
mkdir -p "$folder/other" "$folder/program/src"
# Keeps file times, so that a second run builds nothing again.
git ls-files -z -- Cargo.toml build.rs examples protozero protozero-codegen sdk benches tests |
    tar --create --null --files-from=- | tar --extract --directory "$folder/other"
sed -i -e 's/version = "0\.1\.0"/version = "0.2.0"/' \
    -e "s|^tracezero-events-core = .*|tracezero-events-core = { path = \"$root/sdk/events-core\" }|" "$folder/other/Cargo.toml"

grep -q '^version = "1\.' "$folder/other/sdk/events-core/Cargo.toml" || {
    echo "tracezero-events-core has the version of the others: a program would contain it twice" >&2
    exit 1
}

cat >"$folder/program/Cargo.toml" <<EOF
[package]
name = "versions"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
one = { package = "tracezero", path = "$root/sdk" }
one-events = { package = "tracezero-events", path = "$root/sdk/events" }
other = { package = "tracezero", path = "../other/sdk" }
other-events = { package = "tracezero-events", path = "../other/sdk/events" }

# The profile of the workspace, so that common dependencies are built once.
[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false
EOF
cat >"$folder/program/src/main.rs" <<'EOF'
fn main() {
    let one = one::InMemorySession::start().expect("a session");
    let other = other::InMemorySession::start().expect("a session");
    {
        let _span = one_events::span!("library", "from_one", number = 1);
        other_events::instant!("library", "from_other", number = 2);
    }
    other::instant!("app", "only_in_other");
    let (one, one_report) = one.finish();
    let (other, other_report) = other.finish();
    println!("one: {one_report}\nother: {other_report}");
    assert_eq!((one_report.events, other_report.events), (3, 4));
    for trace in [&one, &other] {
        assert!(has(trace, "from_one") && has(trace, "from_other"));
    }
    assert!(!has(&one, "only_in_other") && has(&other, "only_in_other"));
}

fn has(trace: &[u8], name: &str) -> bool {
    trace.windows(name.len()).any(|at| at == name.as_bytes())
}
EOF
# The packages downloaded for the workspace are sufficient.
rm -f "$folder/program/Cargo.lock"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
cargo run --offline --quiet --manifest-path "$folder/program/Cargo.toml"
