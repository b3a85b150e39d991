//! Tests that a schema gives the same code, whatever the order and spelling of its paths.

use std::path::{Path, PathBuf};

use protozero_codegen::{Config, GeneratedFile};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn generate(files: &[&str]) -> Vec<GeneratedFile> {
    let fixtures = fixtures();
    let folder = |name: &str| fixtures.join(name);
    let files: Vec<PathBuf> = files.iter().map(|file| fixtures.join(file)).collect();
    Config::new()
        .include(folder("packages"))
        .include(folder("basic"))
        .generate(&files)
        .expect("the schema compiles")
}

#[test]
fn the_same_input_gives_the_same_output() {
    let first = generate(&["packages/input.proto"]);
    for _ in 0..10 {
        assert_eq!(generate(&["packages/input.proto"]), first);
    }
}

#[test]
fn the_order_of_files_does_not_matter() {
    let names = |files: &[GeneratedFile]| -> Vec<String> {
        files.iter().map(|file| file.name.clone()).collect()
    };
    let files = generate(&[
        "packages/shapes.proto",
        "packages/flat.proto",
        "packages/no_package.proto",
    ]);
    assert_eq!(names(&files), ["_.rs", "shapes.rs", "shapes.flat.rs"]);
    let turned = generate(&[
        "packages/no_package.proto",
        "packages/flat.proto",
        "packages/shapes.proto",
    ]);
    assert_eq!(turned, files);
}

#[test]
fn a_file_given_twice_counts_once() {
    let once = generate(&["packages/flat.proto"]);
    assert_eq!(
        generate(&["packages/flat.proto", "packages/./flat.proto"]),
        once
    );
}

#[test]
fn root_that_another_root_imports_gives_the_same_code() {
    let alone = generate(&["packages/flat.proto"]);
    let both = generate(&["packages/shapes.proto", "packages/flat.proto"]);
    assert_eq!(both[1..], alone);
}
