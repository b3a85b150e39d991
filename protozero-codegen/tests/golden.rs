//! Tests that compare generated code with a golden file. Each folder in `fixtures/` with an
//! `expected.rs` contains a schema and its expected code, with few fields of each kind, because
//! people read the code.
//!
//! After an intended change, `BLESS=1 cargo test -p protozero-codegen --test golden` rewrites the
//! expected code. Review the difference.
//!
//! `tests/generated` compiles the generated code of all fixtures.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use protozero_codegen::Config;

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(case)
}

#[track_caller]
fn assert_golden(case: &str, config: Config) {
    let folder = fixture(case);
    let files = config
        .include(&folder)
        .generate(&[folder.join("input.proto")])
        .expect("the schema compiles");
    assert_eq!(files.len(), 1, "one package");
    let expected = folder.join("expected.rs");
    if env::var_os("BLESS").is_some() {
        fs::write(&expected, &files[0].source).expect("the schema compiles");
    }
    let expected = fs::read_to_string(&expected).unwrap_or_default();
    let first = expected
        .lines()
        .zip(files[0].source.lines())
        .position(|(old, new)| old != new);
    assert!(
        expected == files[0].source,
        "{case}: differs from expected.rs, first in line {:?}; see the head of this file",
        first.map(|index| index + 1),
    );
}

#[test]
fn fields_of_each_kind_become_the_expected_code() {
    assert_golden("fields", Config::new());
}

#[test]
fn names_that_rust_or_the_generator_uses_are_changed() {
    assert_golden("renamed", Config::new());
}

#[test]
fn other_packages_become_modules() {
    assert_golden("modules", Config::new());
}

#[test]
fn extensions_become_traits() {
    assert_golden("extensions", Config::new());
}

#[test]
fn owned_messages_become_structs_beside_the_writers() {
    assert_golden("structs", Config::new().owned(".structs.Node"));
}

#[test]
fn comments_become_documentation() {
    assert_golden("comments", Config::new());
}
