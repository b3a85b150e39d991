//! Tests that comments of a schema appear in the documentation of the generated code, without
//! warnings of rustdoc.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use protozero_codegen::Config;

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(case)
}

/// Writes a file in which every doc comment of a fixture's code has its own item, so that rustdoc
/// can read the comments without the code. Returns its path and the number of comments.
fn documented_items(case: &str) -> (PathBuf, usize) {
    let folder = fixture(case);
    let files = Config::new()
        .include(&folder)
        .generate(&[folder.join("input.proto")])
        .expect("the schema compiles");
    let mut items = "//! Documentation.\n".to_owned();
    let mut count = 0;
    let mut lines = files[0].source.lines().map(str::trim_start).peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with("///") {
            continue;
        }
        items += &format!("{line}\n");
        if lines.peek().is_none_or(|next| !next.starts_with("///")) {
            items += &format!("pub struct Item{count};\n");
            count += 1;
        }
    }
    let out_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documentation");
    fs::create_dir_all(&out_dir).expect("the folder can be written");
    let file = out_dir.join(format!("{case}.rs"));
    fs::write(&file, items).expect("the folder can be written");
    (file, count)
}

fn rustdoc(file: &Path, arguments: &[&str]) -> Output {
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    Command::new(rustdoc)
        .arg("--edition=2024")
        .args(arguments)
        .arg("--out-dir")
        .arg(file.with_extension("out"))
        .arg(file)
        .output()
        .expect("rustdoc is installed beside rustc")
}

#[test]
fn rustdoc_reports_no_warnings() {
    let (file, count) = documented_items("comments");
    assert!(count > 30, "{count} items");
    let output = rustdoc(&file, &["-Dwarnings"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn no_comment_becomes_a_test() {
    let (file, _) = documented_items("comments");
    let output = rustdoc(&file, &["--test"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 0 tests"), "{text}");
}

#[test]
fn comments_appear_on_every_item_of_their_declaration() {
    let folder = fixture("comments");
    let files = Config::new()
        .include(&folder)
        .generate(&[folder.join("input.proto")])
        .unwrap();
    let source = &files[0].source;
    for (text, count) in [
        ("/// Behind the brace.", 2),             // writer and decoder
        ("/// A block.", 3),                      // number, setter, getter
        ("/// Below a field, in front of an", 4), // number, two setters, getter
        ("/// A choice.", 2),                     // getter and enum
        ("/// The first.", 4),                    // number, setter, getter, variant
        ("/// Nested.", 1),                       // enum
        ("/// Something is known \\& said.", 1),  // constant
        ("A licence", 0),
        ("Detached", 0),
        ("Nobody's", 0),
        ("/// Below the last field.", 3), // number, setter, getter
    ] {
        assert_eq!(source.matches(text).count(), count, "{text}");
    }
}
