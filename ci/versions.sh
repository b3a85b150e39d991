#!/usr/bin/env bash
# Checks a program with two versions of `tracezero` and two of `tracezero-events`: each session must
# have the events of both libraries. The second version is a copy of the tree, in which all packages
# have another version except `tracezero-events-core`: a registry would give both the same one. Then
# checks a plugin: the host's session must have the events of a shared library that the host loads.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
folder=$root/target/versions
rm -rf "$folder/other"
mkdir -p "$folder/other"
# Keeps file times, so that a second run builds nothing again.
git ls-files -z -- Cargo.toml build.rs examples protozero protozero-codegen sdk benches tests |
    tar --create --null --files-from=- | tar --extract --directory "$folder/other"
sed -i -e 's/version = "0\.1\.0"/version = "0.2.0"/' \
    -e "s|^tracezero-events-core = .*|tracezero-events-core = { path = \"$root/sdk/events-core\" }|" "$folder/other/Cargo.toml"

grep -q '^version = "1\.' "$folder/other/sdk/events-core/Cargo.toml" || {
    echo "tracezero-events-core has the version of the others: a program would contain it twice" >&2
    exit 1
}

manifest() { # manifest <package> <the rest of its Cargo.toml>
    mkdir -p "$folder/$1/src"
    cat >"$folder/$1/Cargo.toml" <<EOF
[package]
name = "$1"
version = "0.0.0"
edition = "2024"

[workspace]

# The profile of the workspace, so that common dependencies are built once.
[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false

$2
EOF
    # The packages downloaded for the workspace are sufficient.
    rm -f "$folder/$1/Cargo.lock"
}

manifest program "[dependencies]
one = { package = \"tracezero\", path = \"$root/sdk\" }
one-events = { package = \"tracezero-events\", path = \"$root/sdk/events\" }
other = { package = \"tracezero\", path = \"../other/sdk\" }
other-events = { package = \"tracezero-events\", path = \"../other/sdk/events\" }"
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
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
cargo run --offline --quiet --manifest-path "$folder/program/Cargo.toml"

manifest plugin "[lib]
crate-type = [\"cdylib\"]

[dependencies]
tracezero-events = { path = \"$root/sdk/events\" }"
cat >"$folder/plugin/src/lib.rs" <<'EOF'
use tracezero_events::{ConnectError, Recorder, end, instant, span};

#[unsafe(no_mangle)]
pub fn plugin_connect(host: &'static dyn Recorder) -> Result<(), ConnectError> {
    tracezero_events::connect(host)
}

#[unsafe(no_mangle)]
pub fn plugin_run() {
    let span = span!("plugin", "run_plugin", number = 7);
    instant!("plugin", "inside_plugin", text = "x");
    end!(span, result = true);
}
EOF
manifest host "[dependencies]
libc = \"0.2\"
tracezero = { path = \"$root/sdk\" }
tracezero-events = { path = \"$root/sdk/events\" }"
cat >"$folder/host/src/main.rs" <<'EOF'
use std::ffi::CString;
use std::mem::transmute;

use tracezero_events::{ConnectError, Recorder};

type Connect = fn(&'static dyn Recorder) -> Result<(), ConnectError>;

fn main() {
    let path = std::env::args().nth(1).expect("the plugin's path");
    let path = CString::new(path).expect("a path");
    // SAFETY: loading the plugin runs no code of it.
    let plugin = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!plugin.is_null(), "the plugin cannot be loaded");
    let look_up = |name: &std::ffi::CStr| {
        // SAFETY: the plugin is loaded, and the name ends in NUL.
        let function = unsafe { libc::dlsym(plugin, name.as_ptr()) };
        assert!(!function.is_null(), "the plugin lacks {name:?}");
        function
    };
    // SAFETY: the plugin defines the functions with these types, by the same compiler, and is never
    // unloaded.
    let (connect, run) = unsafe {
        (
            transmute::<*mut libc::c_void, Connect>(look_up(c"plugin_connect")),
            transmute::<*mut libc::c_void, fn()>(look_up(c"plugin_run")),
        )
    };

    let session = tracezero::InMemorySession::start().expect("a session");
    run(); // not connected: records nothing
    connect(tracezero::library_recorder()).expect("connected");
    run();
    let (trace, report) = session.finish();
    println!("host: {report}");
    assert_eq!(report.events, 3);
    for name in ["run_plugin", "inside_plugin"] {
        assert!(trace.windows(name.len()).any(|at| at == name.as_bytes()), "{name}");
    }
}
EOF
cargo build --offline --quiet --manifest-path "$folder/plugin/Cargo.toml"
cargo run --offline --quiet --manifest-path "$folder/host/Cargo.toml" -- "$CARGO_TARGET_DIR/debug/libplugin.so"
